"""A program with nothing but the wheel that has the server."""

from fumehood import Sandbox

with Sandbox("work") as s:
    s.run("x = 41")
    assert s.run("x + 1").text == "42"
    s.files.write("a.csv", "1,2\n")
    assert s.exec("cat a.csv").stdout == "1,2\n"
print("42")
