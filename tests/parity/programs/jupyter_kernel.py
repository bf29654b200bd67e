"""Kind 4: a Jupyter kernel runs a cell that asks, and one that fails."""

# slow: a kernel starts
# needs: ipykernel
# env: JUPYTER_PLATFORM_DIRS=1 PYDEVD_DISABLE_FILE_VALIDATION=1
import sys

from jupyter_client.manager import KernelManager
from jupyter_client.kernelspec import KernelSpec

manager = KernelManager()
argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
manager._kernel_spec = KernelSpec(argv=argv, display_name="here", language="python")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
for cell in ("import llm; print(llm.ask())", "await __import__('asyncio').sleep(0); 6 * 7", "1 / 0"):
    said = []

    def shown(message):
        content = message["content"]
        said.append((message["msg_type"], content.get("text") or content.get("data") or content.get("ename")))

    reply = client.execute_interactive(cell, timeout=60, output_hook=shown, store_history=False)
    print(reply["content"]["status"], said)
client.stop_channels()
manager.shutdown_kernel(now=True)
