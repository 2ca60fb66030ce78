"""OpenAI's published Python SDK, unmodified, against a Fumehood server that OPENAI_BASE_URL names."""

import base64
from datetime import datetime, timezone

from openai import AuthenticationError, BadRequestError, NotFoundError, OpenAI
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseFunctionShellToolCall,
    ResponseFunctionShellToolCallOutput,
)

client = OpenAI()


def raises(kind, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


def containers():
    one = client.containers.create(name="one", expires_after={"anchor": "last_active_at", "minutes": 5})
    two = client.containers.create(
        name="two", network_policy={"type": "allowlist", "allowed_domains": ["example.org"]}
    )
    assert one.status == "running" and one.expires_after.minutes == 5 and one.network_policy.type == "disabled", one
    assert two.network_policy.allowed_domains == ["example.org"] and two.expires_after.minutes == 20, two
    assert abs(one.created_at - datetime.now(timezone.utc).timestamp()) < 60
    assert client.containers.retrieve(one.id).name == "one"
    assert [c.id for c in client.containers.list(name="two")] == [two.id]
    assert [c.id for c in client.containers.list(limit=1, order="asc")] == [one.id, two.id]  # over pages
    client.containers.delete(two.id)
    e = raises(NotFoundError, client.containers.retrieve, two.id)
    assert e.code == "not_found" and e.type == "invalid_request_error", e.body
    raises(NotFoundError, client.containers.retrieve, "cntr_none")
    for call, body in ("code_interpreter", {"code": "1"}), ("shell", {"action": {"commands": ["true"]}}):
        raises(NotFoundError, client.post, f"/containers/{two.id}/{call}_calls", body=body, cast_to=object)
        raises(BadRequestError, client.post, f"/containers/{one.id}/{call}_calls", body={}, cast_to=object)
    raises(BadRequestError, client.containers.create, name="")
    raises(BadRequestError, client.containers.create, name="x", memory_limit="3g")
    raises(AuthenticationError, OpenAI(api_key="wrong").containers.list)
    raises(NotFoundError, client.models.list)
    return one


def files(c):
    put = client.containers.files.create(c.id, file=("data.csv", b"a,b\n1,2\n"))
    assert put.path == "/workspace/data.csv" and put.bytes == 8 and put.container_id == c.id, put
    assert client.containers.files.content.retrieve(put.id, container_id=c.id).read() == b"a,b\n1,2\n"
    assert client.containers.files.retrieve(put.id, container_id=c.id).path == put.path
    run(c, "import os\nos.makedirs('out'); open('out/made.txt', 'w').write('made')")
    listed = {f.path: f.id for f in client.containers.files.list(c.id)}
    assert set(listed) == {"/workspace/data.csv", "/workspace/out/made.txt"}, listed
    made = listed["/workspace/out/made.txt"]
    assert client.containers.files.content.retrieve(made, container_id=c.id).read() == b"made"
    client.containers.files.delete(made, container_id=c.id)
    raises(NotFoundError, client.containers.files.retrieve, made, container_id=c.id)
    outside = "cfile_" + base64.urlsafe_b64encode(b"../etc/passwd").decode().rstrip("=")
    raises(NotFoundError, client.containers.files.content.retrieve, outside, container_id=c.id)
    raises(BadRequestError, client.containers.files.create, c.id, file_id="file-1")


def run(c, code):
    """Runs the code of a call of the code interpreter, and returns the item with its outputs."""
    call = ResponseCodeInterpreterToolCall(
        id="ci_1", code=code, container_id=c.id, status="in_progress", type="code_interpreter_call"
    )
    return client.post(f"/containers/{c.id}/code_interpreter_calls", body=call.model_dump(), cast_to=type(call))


def interpreter(c):
    done = run(c, "x = 41; print('hé')\nx + 1")
    assert done.id == "ci_1" and done.status == "completed" and done.container_id == c.id, done
    assert [(o.type, o.logs) for o in done.outputs] == [("logs", "hé\n42")], done.outputs
    assert "ZeroDivisionError" in run(c, "x / 0").outputs[0].logs
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    shown = run(c, f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{pixel}'))").outputs
    assert [(o.type, o.url) for o in shown] == [("image", "data:image/png;base64," + pixel)], shown
    assert run(c, "y = 1").outputs == []


def shell(c):
    def call(*commands, **limits):
        item = ResponseFunctionShellToolCall(
            id="sh_1", call_id="call_1", status="completed", type="shell_call", action={"commands": commands, **limits}
        )
        body, to = item.model_dump(), ResponseFunctionShellToolCallOutput
        return client.post(f"/containers/{c.id}/shell_calls", body=body, cast_to=to)

    done = call("echo out; echo err >&2; exit 3", "pwd; kill -9 $$", max_output_length=20)
    assert done.call_id == "call_1" and done.type == "shell_call_output" and done.status == "completed", done
    first, second = done.output
    assert (first.stdout, first.stderr, first.outcome.exit_code) == ("out\n", "err\n", 3), first
    assert (second.stdout, second.outcome.exit_code) == ("/workspace\n", 137), second
    assert call("seq 1000", max_output_length=5).output[0].stdout == "1\n2\n3"
    assert call("sleep 60", timeout_ms=300).output[0].outcome.type == "timeout"
    raises(BadRequestError, call)


if __name__ == "__main__":
    container = containers()
    for part in (interpreter, files, shell):
        part(container)
        print("passed", part.__name__)
    client.containers.delete(container.id)
