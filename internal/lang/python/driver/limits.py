# Limits the time of methods of the code.
MAX_SECONDS = 2  # of one call of a method of the code


class Hung(BaseException):
    """A method of the code took too long."""


def limited(function, *args):
    """Calls the function for at most MAX_SECONDS, and restores the timer of the code and its handler."""
    import time
    handler = signal.getsignal(signal.SIGALRM)
    if thread.get_ident() != MAIN or handler is None:  # a handler from outside Python cannot be restored
        return function(*args)
    armed, started, late = True, time.monotonic(), None

    def expire(number, frame):
        if armed:
            raise Hung

    signal.signal(signal.SIGALRM, expire)
    left, interval = signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS, 0.1)  # repeats, if the code catches it
    try:
        return function(*args)
    finally:
        armed = False
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, handler)
                break
            except BaseException as e:
                late = e
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - time.monotonic() + started, 1e-6), interval)
        if late is not None:
            raise late
