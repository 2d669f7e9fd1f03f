"""What the tests of the service share: images, the service's process, a client that checks every
answer against web/openapi.json and remembers it."""

import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import zlib
from urllib.parse import quote, unquote, urlencode

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "web", "openapi.json")
SLOW = os.environ.get("CONTCORE_SANITIZE", "") != ""
SIDE = 64
SMALL = ["--backbone", "builtin", "--resize", "64", "--capacity", "200"]
PATIENCE = 60  # seconds for an answer


# ---- images


def png(pixels):
    """An RGB PNG of a height × width × 3 array."""
    pixels = numpy.asarray(pixels).astype(numpy.uint8)
    height, width, _ = pixels.shape
    rows = numpy.concatenate([numpy.zeros((height, 1), numpy.uint8), pixels.reshape(height, -1)], axis=1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1))
        + chunk(b"IEND", b"")
    )


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def ppm(pixels):
    height, width, _ = pixels.shape
    return b"P6 %d %d 255\n" % (width, height) + pixels.astype(numpy.uint8).tobytes()


def read_png(data):
    """The pixels of an 8-bit RGBA PNG."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:16]
    at, packed, shape = 8, b"", None
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", content)
            assert (depth, colour, interlaced) == (8, 6, 0), (depth, colour, interlaced)
            shape = (height, width)
        elif kind == b"IDAT":
            packed += content
        at += 12 + length
    height, width = shape
    rows = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(height, 1 + 4 * width)
    pixels = numpy.zeros((height, 4 * width), numpy.uint8)
    above = numpy.zeros(4 * width, numpy.uint8)
    for y in range(height):
        how, row = rows[y, 0], rows[y, 1:].copy()
        if how == 2:
            row += above
        elif how != 0:
            for i in range(4 * width):
                left = int(row[i - 4]) if i >= 4 else 0
                corner = int(above[i - 4]) if i >= 4 else 0
                up = int(above[i])
                if how == 1:
                    guess = left
                elif how == 3:
                    guess = (left + up) // 2
                else:
                    base = left + up - corner
                    guess = min((left, up, corner), key=lambda v: abs(base - v))
                row[i] = (int(row[i]) + guess) & 255
        pixels[y] = above = row
    return pixels.reshape(height, width, 4)


def product(style, index, defect=False, side=SIDE):
    """Stripes of one of several kinds, each image shifted and lit differently."""
    numbers = numpy.random.RandomState(1000 * style + index)
    y, x = numpy.mgrid[0:side, 0:side]
    phase = numbers.uniform(0, 6.28)
    wave = numpy.sin((x * (style % 3) + y * (style + 1)) * 0.25 + phase)
    gray = 120 + 50 * wave + numbers.normal(0, 4, (side, side)) + numbers.uniform(-10, 10)
    pixels = numpy.stack([gray, gray * (0.6 + 0.1 * (style % 4)), 255 - gray], axis=2)
    if defect:
        pixels[16:44, 20:48] = numbers.uniform(0, 255, (28, 28, 3))
    return numpy.clip(pixels, 0, 255).astype(numpy.uint8)


def picture(style, index, defect=False):
    return png(product(style, index, defect))


# ---- the document


class Document:
    KNOWN = {
        "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "pattern",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
        "maxItems", "maxProperties", "format", "description", "example", "default",
    }  # fmt: skip
    TYPES = {
        "object": lambda v: isinstance(v, dict),
        "array": lambda v: isinstance(v, list),
        "string": lambda v: isinstance(v, str),
        "boolean": lambda v: isinstance(v, bool),
        "null": lambda v: v is None,
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
        "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    }

    def __init__(self, path):
        with open(path, "rb") as file:
            self.text = file.read()
        self.root = json.loads(self.text)
        self.routes = []
        for template in self.root["paths"]:
            pattern = re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(template))
            self.routes.append((re.compile(pattern + r"\Z"), template))

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            place = node["$ref"]
            assert place.startswith("#/"), place
            node = self.root
            for part in place[2:].split("/"):
                node = node[part.replace("~1", "/").replace("~0", "~")]
        return node

    def operations(self):
        for template, methods in self.root["paths"].items():
            for method, operation in methods.items():
                yield method.upper(), template, operation

    def template(self, path):
        path = path.split("?")[0]
        for pattern, template in self.routes:
            if pattern.match(path):
                return template
        return None

    def operation(self, method, template):
        return self.root["paths"].get(template, {}).get(method.lower())

    def faults(self, value, schema, at="body"):
        """What in a value is not as the schema says."""
        schema = self.resolve(schema)
        found = []
        unknown = set(schema) - self.KNOWN
        if unknown:
            return ["%s: the test does not know %s" % (at, sorted(unknown))]
        if "anyOf" in schema:
            tries = [self.faults(value, one, at) for one in schema["anyOf"]]
            if all(tries):
                found += tries[0]
        if "type" in schema:
            types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if not any(self.TYPES[t](value) for t in types):
                return found + ["%s: %.60r is not %s" % (at, value, " or ".join(types))]
        if "enum" in schema and value not in schema["enum"]:
            found.append("%s: %.60r is none of %s" % (at, value, schema["enum"]))
        if self.TYPES["number"](value):
            for word, wrong in [
                ("minimum", lambda limit: value < limit),
                ("maximum", lambda limit: value > limit),
                ("exclusiveMinimum", lambda limit: value <= limit),
                ("exclusiveMaximum", lambda limit: value >= limit),
            ]:
                if word in schema and wrong(schema[word]):
                    found.append("%s: %r against %s %r" % (at, value, word, schema[word]))
        if isinstance(value, str):
            if "pattern" in schema and not re.search(schema["pattern"], value):
                found.append("%s: %.60r does not match %s" % (at, value, schema["pattern"]))
            if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
                found.append("%s: %d characters" % (at, len(value)))
        if isinstance(value, list):
            if len(value) > schema.get("maxItems", len(value)):
                found.append("%s: %d items" % (at, len(value)))
            for i, item in enumerate(value):
                found += self.faults(item, schema.get("items", {}), "%s[%d]" % (at, i))
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            found += ["%s.%s is missing" % (at, n) for n in schema.get("required", []) if n not in value]
            if len(value) > schema.get("maxProperties", len(value)):
                found.append("%s: %d members" % (at, len(value)))
            for name, member in value.items():
                if name in properties:
                    found += self.faults(member, properties[name], "%s.%s" % (at, name))
                elif schema.get("additionalProperties", True) is False:
                    found.append("%s.%s is not in the document" % (at, name))
        return found

    def response_faults(self, responses, reply):
        """What in an answer is not as one of these responses."""
        response = self.resolve(responses.get(str(reply.status)))
        if response is None:
            return ["%d is not in the document" % reply.status]
        found = []
        for name, header in response.get("headers", {}).items():
            header = self.resolve(header)
            value = reply.headers.get(name)
            if value is None:
                found += ["no header " + name] if header.get("required") else []
                continue
            if header["schema"].get("type") == "integer" and re.fullmatch("[0-9]+", value):
                value = int(value)
            found += self.faults(value, header["schema"], name)
        kind = reply.kind()
        if kind not in response["content"]:
            return found + ["%r is none of %s" % (kind, sorted(response["content"]))]
        schema = response["content"][kind]["schema"]
        if kind.endswith("json"):
            found += self.faults(reply.json(), schema)
        if kind == "application/problem+json":
            said = reply.json()
            if said.get("status") != reply.status or said.get("request_id") != reply.headers.get("x-request-id"):
                found.append("the problem is another's: %s" % said)
        return found


BOOK = Document(DOCUMENT)
SEEN = set()  # (method, path of the document, status)
FAULTS = []


def no_constant(word):
    raise ValueError("%s is not JSON" % word)


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body

    def kind(self):
        return self.headers.get("content-type", "").split(";")[0].strip()

    def json(self):
        return json.loads(self.body, parse_constant=no_constant)

    def __repr__(self):
        return "%d %s %.400r" % (self.status, self.kind(), self.body)


class Headers(dict):
    def get(self, name, default=None):
        return super().get(name.lower(), default)


def is_sound(path):
    """Whether a request's target is: escapes of UTF-8 text, no dots for folders, no parameter twice."""
    try:
        parts = unquote(path.split("?")[0], errors="strict").split("/")
        unquote(path, errors="strict")
    except UnicodeDecodeError:
        return False
    if "." in parts or ".." in parts:
        return False
    names = [pair.split("=")[0] for pair in path.partition("?")[2].split("&")]
    return not re.search("%(?![0-9A-Fa-f]{2})|%00", path) and len(names) == len(set(names))


def check(method, path, reply):
    """Holds an answer against the document and remembers it."""
    template = BOOK.template(path)
    operation = BOOK.operation(method, template)
    if reply.status == 400 and not is_sound(path):
        operation = None
    try:
        if operation is None:
            responses = BOOK.root["x-any-request"]["responses"]
            # Who may not come in is not told what there is.
            faults = [] if reply.status in (401, 403, 429) else BOOK.response_faults(responses, reply)
        else:
            SEEN.add((method, template, reply.status))
            faults = BOOK.response_faults(operation["responses"], reply)
    except ValueError as error:
        faults = [str(error)]
    if reply.headers.get("Cross-Origin-Resource-Policy") != "same-origin":
        faults.append("pages of other sites could show it")
    for fault in faults:
        FAULTS.append("%s %.200s: %d: %s" % (method, path, reply.status, fault))


# ---- the service


def read_replies(data):
    """The answers in what came over a connection."""
    replies = []
    while data.startswith(b"HTTP/1."):
        head, separator, rest = data.partition(b"\r\n\r\n")
        if not separator:
            break
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        headers = Headers((k.lower(), v.strip()) for k, _, v in (line.partition(":") for line in lines[1:]))
        length = int(headers.get("content-length", "0"))
        if status == 100:
            data = rest
            continue
        replies.append(Reply(status, headers, rest[:length]))
        data = rest[length:]
    return replies


class Service:
    def __init__(self, command, folder, *options, memory=None, small=True, env=None, **how):
        self.command = command
        self.folder = folder
        self.memory = memory or os.path.join(folder, "line.ccm")
        self.said = os.path.join(folder, "said.txt")
        self.log = open(self.said, "ab")
        self.options = [str(o) for o in options]
        self.token = None
        if small and not os.path.exists(self.memory):
            self.options += SMALL
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [command, "serve", self.memory, "--port", "0", *self.options],
            stdout=subprocess.PIPE, stderr=self.log, env={**os.environ, **(env or {})}, **how,
        )  # fmt: skip
        line = self.first_line()
        self.took = time.monotonic() - begin
        found = re.fullmatch(r"contcore: listening on http://(\S+):(\d+)\n", line)
        if not found:
            self.process.kill()
            self.process.wait()
            raise AssertionError("%r; %s" % (line, self.words()))
        self.host, self.port = found[1].strip("[]"), int(found[2])
        self.url = "http://%s:%d" % (found[1], self.port)

    def first_line(self):
        end, line = time.monotonic() + PATIENCE, b""
        while not line.endswith(b"\n") and time.monotonic() < end:
            ready, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if ready:
                part = os.read(self.process.stdout.fileno(), 4096)
                if not part:
                    break
                line += part
        return line.decode()

    def words(self):
        with open(self.said, errors="replace") as file:
            return file.read()[-2000:]

    def connect(self, timeout=None):
        made = socket.create_connection((self.host, self.port), timeout or PATIENCE)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def ask(self, method, path, body=None, headers=None, token=None, record=True, **query):
        """One request; a dict becomes JSON, bytes an image."""
        sent = {"Connection": "close"}
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        elif body is not None:
            sent["Content-Type"] = "application/octet-stream"
        sent.update(headers or {})
        token = token or self.token
        if token:
            sent["Authorization"] = "Bearer " + token
        if query:
            path += "?" + urlencode(query, quote_via=quote)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host="Host" in sent, skip_accept_encoding=True)
            if body is not None or method in ("POST", "PUT"):
                sent["Content-Length"] = str(len(body or b""))
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            reply = Reply(
                answer.status, Headers((k.lower(), v) for k, v in answer.getheaders()), answer.read()
            )
        finally:
            connection.close()
        if record:
            check(method, path, reply)
        return reply

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def good(self, method, path, *more, **most):
        """A request that must succeed, and what it gives."""
        reply = self.ask(method, path, *more, **most)
        assert 200 <= reply.status < 300, (method, path, reply)
        return reply.json()

    def raw(self, data, close=False, timeout=None):
        """Sends bytes as they are; the answers until the connection ends or falls silent."""
        got = b""
        with self.connect(timeout) as connection:
            try:
                connection.sendall(data)
                if close:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            try:
                while True:
                    part = connection.recv(65536)
                    if not part:
                        break
                    got += part
            except OSError:
                pass
        return read_replies(got)

    def head(self, method, path, length, kind="application/json", more=""):
        """Announces a body, sends none of it and gives the answer."""
        if self.token:
            more += "Authorization: Bearer %s\r\n" % self.token
        text = "%s %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n" % (method, path, self.host, self.port)
        text += "Content-Type: %s\r\nContent-Length: %d\r\n%s\r\n" % (kind, length, more)
        replies = self.raw(text.encode(), timeout=5)
        assert replies, (method, path, "no answer")
        check(method, path, replies[0])
        return replies[0]

    def memory_kib(self, what="VmRSS"):
        with open("/proc/%d/status" % self.process.pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith(what + ":"))

    def learn_job(self, task, images):
        """Learns a set of images as a job, to its end."""
        job = self.good("POST", "/v1/jobs", {"task": task})["id"]
        for image in images:
            self.good("POST", "/v1/jobs/%s/images" % job, image)
        self.good("POST", "/v1/jobs/%s/start" % job)
        return self.follow(job)

    def follow(self, job):
        end = time.monotonic() + 4 * PATIENCE
        while time.monotonic() < end:
            said = self.good("GET", "/v1/jobs/%s" % job)
            if said["state"] not in ("receiving", "reviewing", "learning"):
                return said
            time.sleep(0.02)
        raise AssertionError("the job does not end: %s" % said)

    def tasks(self):
        return {task["name"]: task for task in self.good("GET", "/v1/tasks")["tasks"]}

    def send_signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(timeout=4 * PATIENCE)
        self.process.stdout.close()
        self.log.close()
        return code

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        self.process.kill()
        return self.wait()


def multipart(image, name="image", file="part.png", boundary="xXx7"):
    return (
        b'--%b\r\nContent-Disposition: form-data; name="%b"; filename="%b"\r\n'
        b"Content-Type: image/png\r\n\r\n%b\r\n--%b--\r\n"
        % (boundary.encode(), name.encode(), file.encode(), image, boundary.encode())
    ), {"Content-Type": "multipart/form-data; boundary=" + boundary}


def together(functions):
    """Runs them at the same time; what they give, or what they raised, in their order."""
    results = [None] * len(functions)

    def run(i):
        try:
            results[i] = functions[i]()
        except Exception as error:  # pylint: disable=broad-except
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def temporary():
    return tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


class ServiceTest(unittest.TestCase):
    """Starts services in a folder of its own and ends them."""

    command = "contcore"
    ready_memory = None  # two products, learned once for all

    def setUp(self):
        self.folder = temporary()
        self.services = []

    def tearDown(self):
        for service in self.services:
            if service.process.poll() is None:
                service.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        faults = sorted(set(FAULTS))
        FAULTS.clear()
        self.assertEqual(faults[:20], [])

    def start(self, *options, **more):
        service = Service(self.command, self.folder, *options, **more)
        self.services.append(service)
        return service

    def start_learned(self, *options, **more):
        """A service whose memory knows p0 and p1."""
        if ServiceTest.ready_memory is None:
            folder = temporary()
            try:
                path = os.path.join(folder, "ready.ccm")
                for style in range(2):
                    images = os.path.join(folder, "p%d" % style)
                    os.mkdir(images)
                    for i in range(20):
                        with open(os.path.join(images, "%02d.png" % i), "wb") as file:
                            file.write(picture(style, i))
                    done = self.run_command(
                        "learn", path, images, "--task", "p%d" % style, *(SMALL if style == 0 else [])
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)
                with open(path, "rb") as file:
                    ServiceTest.ready_memory = file.read()
            finally:
                shutil.rmtree(folder)
        memory = os.path.join(self.folder, "line.ccm")
        if not os.path.exists(memory):
            with open(memory, "wb") as file:
                file.write(ServiceTest.ready_memory)
        return self.start(*options, **more)

    def run_command(self, *arguments, env=None):
        return subprocess.run(
            [self.command, *map(str, arguments)],
            capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})},
        )  # fmt: skip

    def refuse_to_start(self, words, *options, env=None):
        memory = os.path.join(self.folder, "line.ccm")
        done = subprocess.run(
            [self.command, "serve", memory, "--port", "0", *map(str, options), *SMALL],
            capture_output=True, text=True, timeout=20, env={**os.environ, **(env or {})},
        )  # fmt: skip
        self.assertIn(done.returncode, (2, 3), done.stderr)
        self.assertNotIn("listening", done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        return done
