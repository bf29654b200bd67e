"""AutoGen: an assistant whole and one streamed, and a tool."""

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

CAN = {"vision": False, "function_calling": True, "json_output": False, "family": "unknown", "structured_output": False}
client = OpenAIChatCompletionClient(model="smol", base_url=sys.argv[1], api_key="x", model_info=CAN)


async def search(query: str) -> str:
    return "found " + query


async def main():
    for agent in (AssistantAgent("writer", client), AssistantAgent("critic", client, model_client_stream=True)):
        print((await agent.run(task="hi")).messages[-1].content)
    print(await FunctionTool(search, description="Find.").run_json({"query": "cats"}, CancellationToken()))


asyncio.run(main())
