"""The Python programs of the tutorial, and what the page says that they print: test_tutorial.py ROOT. They check themselves. Step 4 is
run by the test consumer.commands_tutorial."""

import pathlib
import re
import subprocess
import sys
import tempfile

folder = pathlib.Path(sys.argv[1]).resolve() / "tests/consumer/tutorial"
page = (folder / "README.md").read_text(encoding="utf-8")
blocks = {"probe.py": "tutorial probe"}
wanted = {program: re.search(rf"<!-- block: {name} -->\n```text\n(.*?)```", page, re.DOTALL)[1] for program, name in blocks.items()}
for program in ("sweep.py", "probe.py", "fit.py"):
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run([sys.executable, "-B", folder / program], cwd=work, capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    if done.returncode != 0:
        sys.exit(f"{program} failed:\n{done.stderr}")
    if done.stdout != wanted.get(program, done.stdout):
        sys.exit(f"the page says of {program}:\n{wanted[program]}")
