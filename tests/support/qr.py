"""Reader of QR codes in images, independent of the library that draws them."""

from re import fullmatch, search
from struct import unpack
from zlib import decompress

import zxingcpp


def read_png(image: bytes) -> str:
    """Return the text of the QR code in a PNG of one bit per pixel; a row is as written, or relative to the last."""
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(image):
        [length] = unpack(">I", image[place : place + 4])
        chunks[image[place + 4 : place + 8]] = image[place + 8 : place + 8 + length]
        place += 12 + length
    width, height, depth, colour = unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (1, 0), "not a picture in black and white"
    data, stride = decompress(chunks[b"IDAT"]), (width + 7) // 8 + 1
    rows, row = [], bytes(stride - 1)
    for number in range(height):
        kind, written = data[number * stride], data[number * stride + 1 : (number + 1) * stride]
        assert kind in (0, 2), f"filter {kind}"  # none and Up (PNG 9.2)
        row = written if kind == 0 else bytes((old + new) % 256 for old, new in zip(row, written, strict=True))
        rows.append(row)
    return read_pixels([[255 * (row[x // 8] >> 7 - x % 8 & 1) for x in range(width)] for row in rows])


def read_svg(image: bytes) -> str:
    """Return the text of the QR code in an SVG whose strokes are horizontal lines of modules."""
    text = image.decode()
    size = int(_found(r'height="(\d+)"', text)) // int(_found(r"scale\((\d+)\)", text))
    pixels = [[255] * size for _ in range(size)]
    x = y = 0.0
    for command, numbers in _commands(_found(r'class="qrline"[^>]* d="([^"]+)"', text)):
        match command:
            case "M":
                x, y = numbers
            case "m":
                x, y = x + numbers[0], y + numbers[1]
            case "h":
                pixels[int(y)][int(x) : int(x + numbers[0])] = [0] * int(numbers[0])
                x += numbers[0]
    return read_pixels([[pixel for pixel in row for _ in range(4)] for row in pixels for _ in range(4)])


def _commands(path: str) -> list[tuple[str, list[float]]]:
    found: list[tuple[str, list[float]]] = []
    while path:
        match = fullmatch(r"([Mmh])([-0-9. ]*)(.*)", path)
        assert match is not None, path
        found.append((match[1], [float(number) for number in match[2].replace("-", " -").split()]))
        path = match[3]
    return found


def _found(pattern: str, text: str) -> str:
    match = search(pattern, text)
    assert match is not None, text[:200]
    return match[1]


def read_pixels(pixels: list[list[int]]) -> str:
    """Return the text of the only QR code in a grey picture."""
    flat = bytes(pixel for row in pixels for pixel in row)
    shape = memoryview(flat).cast("B", (len(pixels), len(pixels[0])))
    [code] = zxingcpp.read_barcodes(shape)
    assert code.format == zxingcpp.BarcodeFormat.QRCode, code.format
    return str(code.text)
