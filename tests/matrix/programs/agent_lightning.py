"""Agent Lightning's own functions in an agent: rewards of one and of several dimensions, a message, an object."""

import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network while it is imported

import agentlightning as agl
from agentlightning.emitter.reward import reward
from openai import OpenAI


def say(emit, *args, **kwargs):
    try:
        emit(*args, **kwargs)
        print(emit.__name__, "emitted")
    except RuntimeError as error:  # no tracer of theirs is active
        print(emit.__name__, error)


client = OpenAI(base_url=sys.argv[1], api_key="x")
print(client.chat.completions.create(model="smol", messages=[{"role": "user", "content": "hi"}]).choices[0].message)
say(agl.emit_message, "looked at the table")
say(agl.emit_object, {"rows": 3})
say(agl.emit_exception, ValueError("no such column"))
say(agl.emit_annotation, {"phase": "planning"})
say(agl.emit_reward, {"syntax": 0.25, "goal": 0.75}, primary_key="goal")


@reward
def score():
    return 0.5


try:
    print(score())
except RuntimeError as error:
    print(error)
