# Runs code that awaits at the top level. All runs share one event loop, so a task continues when a later run awaits.
import asyncio

LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)


async def evaluate_async(codes):
    """Does the same as evaluate for code that awaits."""
    for code in codes:
        value = eval(code, NAMESPACE)
        if code.co_flags & COROUTINE:
            value = await value
    return value


def wait(coroutine):
    task = LOOP.create_task(coroutine)
    try:
        return LOOP.run_until_complete(task)
    except BaseException:
        if not task.done():  # an interrupt of the loop itself: run the finally clauses of the code
            task.cancel()
            try:
                LOOP.run_until_complete(task)
            except asyncio.CancelledError:
                pass
        raise
