"""Answer a question about a small company from its database: ask a model for SQL, run it, mend it once or twice."""

from __future__ import annotations

import argparse
import os
import sqlite3

from database import run_sql
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam
from reward import score

MODEL = "gpt-4o-mini"
MAX_TURNS = 3
INSTRUCTIONS = """You write SQLite queries.
CREATE TABLE staff (name TEXT, team TEXT, city TEXT, age INTEGER, salary INTEGER)"""
WORKED_EXAMPLES = [
    ("What is the lowest salary?", "SELECT MIN(salary) FROM staff"),
    ("Which people are in the design team?", "SELECT name FROM staff WHERE team = 'design'"),
    ("How many people work in Rome?", "SELECT COUNT(*) FROM staff WHERE city = 'Rome'"),
]


def first_messages(question: str) -> list[ChatCompletionMessageParam]:
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": INSTRUCTIONS}]
    for asked, sql in WORKED_EXAMPLES:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": sql})
    messages.append({"role": "user", "content": question})
    return messages


def answer(client: OpenAI, question: str, model: str = MODEL) -> tuple[str, list[tuple] | None]:
    """The last query tried and its rows; None for the rows when no query ran."""
    messages = first_messages(question)
    sql = ""
    for _ in range(MAX_TURNS):
        response = client.chat.completions.create(model=model, messages=messages, temperature=0.8, max_tokens=40)
        text = response.choices[0].message.content or ""
        sql = read_sql(text)
        try:
            return sql, run_sql(sql)
        except sqlite3.Error as error:
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": f"Error: {error}. Write the corrected query."})
    return sql, None


def read_sql(text: str) -> str:
    """The query in a reply: up to the first semicolon, without the fence some models put around it."""
    return text.strip().removeprefix("```sql").strip("`").partition(";")[0].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--question", required=True)
    parser.add_argument("--expected-sql", help="a right query; with it the answer is scored")
    arguments = parser.parse_args()
    client = OpenAI(api_key=os.environ.get("OPENAI_API_KEY") or "no key given")
    sql, rows = answer(client, arguments.question)
    print(sql)
    print("no answer" if rows is None else "\n".join(", ".join(map(str, row)) for row in rows))
    if arguments.expected_sql:
        print("reward:", score(sql, arguments.expected_sql))


if __name__ == "__main__":
    main()
