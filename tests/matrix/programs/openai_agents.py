"""OpenAI Agents SDK: an agent whole and streamed, and one that uses a tool until it is stopped."""

import asyncio
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.exceptions import MaxTurnsExceeded
from openai import AsyncOpenAI

set_tracing_disabled(True)
model = OpenAIChatCompletionsModel("smol", openai_client=AsyncOpenAI(base_url=sys.argv[1], api_key="x"))


@function_tool
def look(city: str) -> str:
    """Look."""
    return "rain in " + city


async def main():
    writer = Agent(name="Writer", instructions="be", model=model)
    print((await Runner.run(writer, "hi")).final_output)
    streamed = Runner.run_streamed(Agent(name="Streamer", instructions="be", model=model), "hi")
    print(len([event async for event in streamed.stream_events()]) > 0, streamed.final_output)
    try:
        await Runner.run(Agent(name="Looker", instructions="be", model=model, tools=[look]), "hi", max_turns=1)
    except MaxTurnsExceeded as error:
        print(type(error).__name__)


asyncio.run(main())
