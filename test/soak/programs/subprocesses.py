# Children with pipes, a pipeline, a signal, a time-out, and an orphan that pid 1 must reap.
import signal, subprocess, sys

n = sys.argv[1]
numbers = "3\n1\n" + n + "\n"
print(subprocess.run(["sort", "-n"], input=numbers, text=True, capture_output=True, check=True).stdout.split())
a = subprocess.Popen(["seq", "1", "1000"], stdout=subprocess.PIPE)
b = subprocess.Popen(["grep", "-c", n], stdin=a.stdout, stdout=subprocess.PIPE, text=True)
a.stdout.close()
print(b.communicate()[0].strip(), a.wait(), b.returncode)
p = subprocess.Popen(["sleep", "100"])
p.send_signal(signal.SIGTERM)
print(p.wait())
try:
    subprocess.run(["sleep", "100"], timeout=0.05)
except subprocess.TimeoutExpired:
    print("timed out")
print(subprocess.run("(true &) ; exit " + n, shell=True).returncode)
