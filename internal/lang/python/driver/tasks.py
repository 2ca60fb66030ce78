# Runs what awaits at the top level. One event loop serves all runs, so a task goes on whenever a later run awaits.
import asyncio

LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)


async def evaluate_async(codes):
    """Does what evaluate does, where code that awaits is within."""
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
        if not task.done():  # an interrupt of the loop itself: let the code's finally clauses run
            task.cancel()
            try:
                LOOP.run_until_complete(task)
            except asyncio.CancelledError:
                pass
        raise
