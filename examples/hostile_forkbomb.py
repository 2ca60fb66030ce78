"""Forks for ever, and goes on trying where it may not."""

import os
import time

first, told = os.getpid(), False
while True:
    try:
        os.fork()
    except OSError as error:
        if os.getpid() == first and not told:
            print("fork:", error.strerror)
            told = True
        time.sleep(0.1)
