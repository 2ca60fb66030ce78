# Reopens standard streams that the code closed.


def reopen(name, number):
    global STDOUT, STDERR
    if number == 0:
        stream = io.TextIOWrapper(io.BufferedReader(NoInput()), "utf-8")
    else:
        try:
            stream = Output(io.open(number, "wb", closefd=False), "utf-8", "strict" if number == 1
                    else "backslashreplace",
                                      line_buffering=True)
        except OSError:  # the code closed the descriptor too
            stream = None
        if number == 1:
            STDOUT = stream
        else:
            STDERR = stream
    setattr(sys, name, stream)
    setattr(sys, "__%s__" % name, stream)
