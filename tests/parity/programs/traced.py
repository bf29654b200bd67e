"""Kind 2: sys.settrace of the agent sees the agent's own lines, in order, around a call."""

import sys

from llm import ask

lines = []


def trace(frame, event, argument):
    if frame.f_code.co_filename != __file__:
        return None
    lines.append((frame.f_code.co_name, event, frame.f_lineno))
    return trace


def work():
    text = ask("traced")
    return text.upper()


sys.settrace(trace)
print(work(), sys.gettrace() is trace)
sys.settrace(None)
print(lines)
