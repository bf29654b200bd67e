"""The same job for two roles: a planner names what the query needs, and a writer makes the query of that."""

from __future__ import annotations

import argparse
import os
import sqlite3

from agent import MODEL, first_messages, read_sql
from database import run_sql
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from reward import score

INSTRUCTIONS = "Say which columns of staff (name, team, city, age, salary) a question asks for, and its condition."
WORKED_PLANS = [
    ("What is the lowest salary?", "the minimum of salary, no condition"),
    ("Which people are in the design team?", "name, where team is design"),
    ("How many people work in Rome?", "a count, where city is Rome"),
]


def plan(client: OpenAI, question: str) -> str:
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": INSTRUCTIONS}]
    for asked, planned in WORKED_PLANS:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": planned})
    messages.append({"role": "user", "content": question})
    return ask(client, messages, 24)


def write_sql(client: OpenAI, question: str, planned: str) -> str:
    messages = first_messages(f"{question} ({planned})")
    return read_sql(ask(client, messages, 40))


def ask(client: OpenAI, messages: list[ChatCompletionMessageParam], length: int) -> str:
    reply = client.chat.completions.create(model=MODEL, messages=messages, temperature=0.8, max_tokens=length)
    return (reply.choices[0].message.content or "").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--question", required=True)
    parser.add_argument("--expected-sql", help="a right query; with it the answer is scored")
    arguments = parser.parse_args()
    client = OpenAI(api_key=os.environ.get("OPENAI_API_KEY") or "no key given")
    sql = write_sql(client, arguments.question, plan(client, arguments.question))
    print(sql)
    try:
        print("\n".join(", ".join(map(str, row)) for row in run_sql(sql)))
    except sqlite3.Error as error:
        print("no answer:", error)
    if arguments.expected_sql:
        print("reward:", score(sql, arguments.expected_sql))


if __name__ == "__main__":
    main()
