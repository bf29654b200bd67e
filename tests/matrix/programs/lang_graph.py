"""LangChain and LangGraph: plain, in nodes (sync, async, streamed), a tool, a named agent, a chain without a name."""

import asyncio
import sys

from langchain.agents import create_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

llm = ChatOpenAI(model="smol", base_url=sys.argv[1], api_key="x", max_retries=0)


@tool
def search(query: str) -> str:
    """Find something."""
    return "found " + query


def planner(state):
    return {"messages": [llm.invoke(state["messages"])]}


async def writer(state):
    return {"messages": [await llm.ainvoke(state["messages"])]}


def streamer(state):
    return {"messages": ["".join(str(part.content) for part in llm.stream(state["messages"]))]}


graph = StateGraph(MessagesState)
for node in (planner, writer, streamer):
    graph.add_node(node.__name__, node)
for start, end in ((START, "planner"), ("planner", "writer"), ("writer", "streamer"), ("streamer", END)):
    graph.add_edge(start, end)

print(llm.invoke("hello").content)
print([part.content for part in asyncio.run(graph.compile().ainvoke({"messages": [("user", "hi")]}))["messages"]])
print(search.invoke({"query": "cats"}))
print(create_agent(llm, tools=[], name="helper").invoke({"messages": [("user", "hi")]})["messages"][-1].content)
chain = ChatPromptTemplate([("system", "You are a careful SQL writer since 2024."), ("user", "{question}")]) | llm
print(chain.invoke({"question": "how many"}).content)
print("".join(part.content for part in chain.stream({"question": "how many"})))
