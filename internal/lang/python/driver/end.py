# Ends the interpreter as usual: exit handlers of the code run, and files are flushed.
END_SECONDS = 2  # what that may take; a thread of the code could go on forever

signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm(END_SECONDS)
