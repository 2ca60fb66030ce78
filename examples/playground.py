"""Code changes one folder of this host: pip install a wheel of `make sdk`, then python3 examples/playground.py."""

import tempfile

from fumehood import FumehoodError, Sandbox

with tempfile.TemporaryDirectory() as folder, Sandbox(workspace=folder) as s:
    s.files.write("numbers.txt", "3\n4\n5\n")
    s.exec("sort -rn numbers.txt > sorted.txt; ln -s /etc/passwd link")
    print(s.files.read_text("sorted.txt").split())  # ['5', '4', '3'], also in the folder
    try:
        s.files.read("../../etc/passwd")
    except FumehoodError as e:
        print(e.hint or e)  # a relative path stays in the folder
    s.files.clean(force=True)
