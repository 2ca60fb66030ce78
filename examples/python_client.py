"""State, files and a failed program: pip install a wheel of `make sdk`, then python3 examples/python_client.py."""

from fumehood import Sandbox

with Sandbox(limits={"timeout_s": 10}) as s:
    s.files.write("sales.csv", "city,total\nOslo,20\nBergen,22\n")
    s.run("import csv\nrows = list(csv.DictReader(open('sales.csv')))")
    print(s.run("sum(int(row['total']) for row in rows)").text)  # 42

    answer = s.run("rows[2]")
    print(answer.status, answer.exception.value)  # failed list index out of range

    for event in s.start("for row in rows: print(row['city'])").events():
        print(event.name, event.text.strip())
