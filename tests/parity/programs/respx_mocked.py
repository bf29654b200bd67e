"""Kind 9: respx mocks a route strictly: what it was not told of is an error, so we may not ask it anything."""

# needs: respx
# elsewhere: 1
import httpx
import respx
from llm import body

with respx.mock(assert_all_called=True) as mock:
    route = mock.post("http://mocked.test/v1/chat/completions").respond(json={"choices": []})
    print(httpx.post("http://mocked.test/v1/chat/completions", json=body()).json(), route.call_count)
