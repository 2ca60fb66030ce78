# Ends what hangs.
MAX_SECONDS = 2  # that one call of the code's methods may take


class Hung(BaseException):
    """The code's method took too long."""


def limited(function, *args):
    """Calls the function, which may take MAX_SECONDS. The code's own timer and its handler are put back."""
    import time
    handler = signal.getsignal(signal.SIGALRM)
    if thread.get_ident() != MAIN or handler is None:  # a handler from outside Python could not be put back
        return function(*args)
    armed, started, late = True, time.monotonic(), None

    def expire(number, frame):
        if armed:
            raise Hung

    signal.signal(signal.SIGALRM, expire)
    left, interval = signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS, 0.1)  # again, if the code swallows it
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
