# Ends the interpreter as usual: exit handlers of the code run, and files are flushed.
END_SECONDS = 2  # the maximum; a thread of the code could continue forever

signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm(END_SECONDS)
