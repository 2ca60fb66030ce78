def show_value(value, main):
    send(b"result", run_id, b"1" if main else b"0", b"text/plain", repr(value).encode())
