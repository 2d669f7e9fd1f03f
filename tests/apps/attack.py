"""Attacks a service of its own and says what its clients notice: eight JPEGs of 250 scans at a time
and 2,100 request heads that never end, while one client inspects images and another asks /health.

    attack.py COMMAND [SECONDS]

Prints milliseconds, quiet and under attack, with the attackers at other addresses than the client
and at the same. Ends with 1 if the client's p99 is more than three times its quiet one, or an answer
of /health took more than 100 ms. For a person to run, on a machine that has nothing else to do: the
attackers need processors, too."""

import contextlib
import multiprocessing
import os
import resource
import socket
import struct
import sys
import tempfile
import threading
import time

import serving

HEADS = 2100
BOMBS = 8


# ---- what is sent


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def scan_bomb(side=10240, scans=250):
    """A progressive gray JPEG, all of it one gray: a scan for the mean of each block, then scans of
    runs of up to 32767 blocks in which nothing changes. A decoder goes over all blocks each time."""
    blocks = ((side + 7) // 8) ** 2
    means = b"\x00" + bytes([1] + 15 * [0]) + b"\0"  # "0": no change
    # Four bits stand for runs of 2^0 to 2^14, and as many more as the bits that follow say.
    runs = b"\x10" + bytes([0, 0, 0, 15] + 12 * [0]) + bytes(i << 4 for i in range(15))
    bits, left = "", blocks
    while left:
        run = min(left, 32767)
        size = run.bit_length() - 1
        bits += format(size, "04b") + (format(run - (1 << size), "0%db" % size) if size else "")
        left -= run
    bits += "1" * (-len(bits) % 8)
    empty = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    bomb = b"\xff\xd8" + segment(0xDB, b"\0" + b"\1" * 64)
    bomb += segment(0xC2, struct.pack(">BHHBBBB", 8, side, side, 1, 1, 0x11, 0))
    bomb += segment(0xC4, means) + segment(0xC4, runs)
    bomb += segment(0xDA, bytes([1, 1, 0, 0, 0, 1])) + bytes((blocks + 7) // 8)
    for i in range(1, scans):
        bomb += segment(0xDA, bytes([1, 1, 0, 1, 63, 0x01 if i == 1 else 0x10])) + empty
    return bomb + b"\xff\xd9"


def connect(port, address):
    made = socket.socket()
    made.settimeout(20)
    made.bind((address, 0))
    made.connect(("127.0.0.1", port))
    return made


def post(image):
    head = b"POST /v1/inspections HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % len(image) + image


def ask(port, address, request):
    """The status of the answer, 0 if there is none."""
    answer = b""
    try:
        with connect(port, address) as connection:
            connection.sendall(request)
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
    except OSError:
        pass
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


# ---- those who attack


def allow_files(count):
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now == resource.RLIM_INFINITY or now >= count:
        return True
    if most != resource.RLIM_INFINITY and most < count:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))
    return True


def hold_heads(port, addresses, count, stop, held, opened):
    """Keeps so many half-sent heads open; those that are closed are sent again, a few hundred a second."""
    half = b"POST /v1/inspections HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
    heads = [None] * count
    while not stop.is_set():
        most = opened.value + 500
        for i in range(count):
            try:
                if heads[i] is None and opened.value < most:
                    opened.value += 1
                    heads[i] = connect(port, addresses[i % len(addresses)])
                    heads[i].setblocking(False)
                    heads[i].send(half)
                elif heads[i] is not None and heads[i].recv(4096) == b"":
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                heads[i] = heads[i] and heads[i].close()
        held.value = max(held.value, sum(head is not None for head in heads))
        stop.wait(0.5)
    for head in heads:
        if head is not None:
            head.close()


def throw_bombs(port, addresses, stop, thrown):
    bomb = post(scan_bomb())

    def throw(address):
        while not stop.is_set():
            ask(port, address, bomb)
            with thrown.get_lock():
                thrown.value += 1
            stop.wait(1)

    threads = [threading.Thread(target=throw, args=(addresses[i % len(addresses)],)) for i in range(BOMBS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Attack:
    """Goes on while it is held; in processes of its own, so that it does not slow the client down."""

    def __init__(self, port, addresses, heads=HEADS):
        self.stop = multiprocessing.Event()
        self.held, self.opened, self.thrown = (multiprocessing.Value("i", 0) for _ in range(3))
        self.heads = heads
        self.processes = [
            multiprocessing.Process(target=hold_heads, args=(port, addresses, heads, self.stop, self.held, self.opened)),
            multiprocessing.Process(target=throw_bombs, args=(port, addresses, self.stop, self.thrown)),
        ]

    def __enter__(self):
        allow_files(self.heads + 200)  # the processes inherit it
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for process in self.processes:
            process.join()


# ---- those who are served


def clients(port, image, seconds):
    """Milliseconds of each inspection and each /health, and how many had no good answer."""
    times, failed = {"inspect": [], "health": []}, []
    end = time.monotonic() + seconds

    def client(name, request, good):
        while time.monotonic() < end:
            begin = time.monotonic()
            status = ask(port, "127.0.0.1", request)
            times[name].append(1000 * (time.monotonic() - begin))
            if status != good:
                failed.append((name, status))
            time.sleep(0.02)

    health = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    threads = [
        threading.Thread(target=client, args=("inspect", post(image), 201)),
        threading.Thread(target=client, args=("health", health, 200)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, failed


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def main(command, seconds):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as at_end:
        service = serving.Service(command, folder)
        at_end.callback(service.process.wait)
        at_end.callback(service.process.kill)
        image = serving.picture(0, 50)
        service.learn_job("p0", [serving.picture(0, i) for i in range(20)])
        sound, quiet = True, None
        others = ["127.0.0.%d" % i for i in range(2, 10)]
        for name, addresses in [("quiet", None), ("others attack", others), ("own address", ["127.0.0.1"])]:
            if addresses is None:
                (times, failed), attack = clients(service.port, image, seconds), None
            else:
                with Attack(service.port, addresses) as attack:
                    times, failed = clients(service.port, image, seconds)
            p50, p99 = (quantile(times["inspect"], q) for q in (0.5, 0.99))
            worst = max(times["health"])
            quiet = quiet or p99
            sound = sound and p99 <= 3 * quiet and worst <= 100 and not failed
            print(
                "%-14s %4d inspections: p50 %6.1f  p99 %6.1f (%.1f times)   /health: worst %6.1f   failed: %d"
                % (name, len(times["inspect"]), p50, p99, p99 / quiet, worst, len(failed))
            )
            if attack:
                print(
                    "%-14s %d heads sent, at most %d held at once, %d bombs answered"
                    % ("", attack.opened.value, attack.held.value, attack.thrown.value)
                )
    return 0 if sound else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 10))
