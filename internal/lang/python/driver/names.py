def complete(id, code, cursor):
    send(b"matches", id, cursor)
