"""Kind 2: the text of an uncaught, chained traceback, and exit status 1."""

# server: plain


def inner():
    return {}["missing"]


try:
    inner()
except KeyError as error:
    raise ValueError("outer") from error
