"""Kind 9: a call near the recursion limit: the agent gets its own RecursionError or its reply, and goes on."""

# server: plain
import sys


def depth(number):
    return number if number == 0 else depth(number - 1) + 1


try:
    depth(10**6)
except RecursionError as error:
    print(error)
print(depth(sys.getrecursionlimit() - 100) > 0)
