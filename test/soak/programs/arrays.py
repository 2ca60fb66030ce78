# numpy with its threaded BLAS, fast Fourier transforms, and a file of its own format.
import sys
import numpy as np

n = int(sys.argv[1])
r = np.random.default_rng(n)
a = r.integers(0, 100, (120, 120)).astype(float) + 1000 * np.eye(120)
x = np.linalg.solve(a, np.arange(120.0))
print(np.allclose(a @ x, np.arange(120.0)), int((a @ a).sum()))
signal = np.sin(2 * np.pi * (n + 3) * np.arange(256) / 256)
print(int(np.argmax(np.abs(np.fft.rfft(signal)))))
np.save("a.npy", a.astype(np.int64))
print(int(np.load("a.npy", mmap_mode="r").sum()))
