"""Kind 2: the interactive interpreter, fed by a pipe: banner, prompts, a traceback, an end of file."""

# run: python -i -q -c 'x = 1'
# stdin: b"import llm\nllm.ask()\nx/0\nimport sys; sys.ps1\nfor i in range(2):\n  i\n\n"
print("the lines come in by a pipe")
