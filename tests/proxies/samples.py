"""The samples of etc/ with the ports, files and certificate of a test."""

import os
from collections.abc import Sequence

from tests.e2e.service import ROOT
from tests.proxies.programs import HAS_IPV6, Proxy, program

UPSTREAM = "127.0.0.1:8080"
CERTIFICATE, KEY = "/etc/ssl/play.example.org/fullchain.pem", "/etc/ssl/play.example.org/privkey.pem"

AROUND = """
{user}
daemon off;
pid {folder}/pid;
error_log stderr info;
events {{ worker_connections 768; }}
http {{
    client_body_temp_path {folder}/body 1 2;
    proxy_temp_path {folder}/proxy 1 2;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    access_log {folder}/everything.log;
    gzip on;
    gzip_types *;
    gzip_proxied any;
    proxy_cache_path {folder}/cache keys_zone=all:1m;
    proxy_cache all;
    proxy_cache_valid any 10m;
    proxy_ignore_headers Cache-Control Expires Set-Cookie Vary;
    include {folder}/gamed.conf;
}}
"""
"""An nginx.conf like Debian's, and what owners put there for their other sites: it caches and compresses all it can."""

GLOBAL = """{{
	admin off
	default_bind 127.0.0.1
	http_port {plain}
	https_port {port}
"""


class Nginx(Proxy):
    name = "nginx"

    def text(self) -> str:
        """Return the configuration of this site."""
        return sample("etc/nginx/gamed.conf")

    def _prepare(self, upstream: str) -> Sequence[str]:
        text = self.text()
        text = changed(text, "listen 80;", f"listen 127.0.0.1:{self.plain_port};")
        text = changed(text, "listen [::]:80;", f"listen [::1]:{self.plain_port};" if HAS_IPV6 else "")
        text = changed(text, "listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;")
        text = changed(text, "listen [::]:443 ssl;", f"listen [::1]:{self.port} ssl;" if HAS_IPV6 else "")
        text = changed(text, CERTIFICATE, str(self.certificate))
        text = changed(text, KEY, str(self.certificate))
        text = changed(text, "/var/log/nginx/gamed.log", str(self.log))
        text = changed(text, "root /var/www/html;", f"root {self.folder}/html;")
        if upstream.startswith("unix:"):
            text = changed(text, f"    server {UPSTREAM} fail_timeout=1s;\n", "")
            text = changed(text, "#server unix:/run/gamed.sock ", f"server {upstream} ")
        else:
            first, *others = upstream.split()
            text = changed(text, UPSTREAM, first)
            for other in others:
                text = changed(text, "#server 192.0.2.12:8080 ", f"server {other} ")
        (self.folder / "gamed.conf").write_text(text)
        user = "user root;" if os.getuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(AROUND.format(folder=self.folder, user=user))
        return [program("nginx"), "-p", str(self.folder), "-e", "stderr", "-c", str(self.folder / "nginx.conf")]


class Caddy(Proxy):
    name = "caddy"

    def _prepare(self, upstream: str) -> Sequence[str]:
        text = sample("etc/caddy/Caddyfile")
        text = changed(text, "{\n\t# Caddy's", GLOBAL.format(plain=self.plain_port, port=self.port) + "\t# Caddy's")
        text = changed(text, f"#tls {CERTIFICATE} {KEY}", f"tls {self.certificate} {self.certificate}")
        text = changed(text, "/var/log/caddy/gamed.log", str(self.log))
        target = upstream.replace("unix:", "unix/")
        text = changed(text, f"\n\t\treverse_proxy {UPSTREAM}", f"\n\t\treverse_proxy {target}")
        (self.folder / "Caddyfile").write_text(text)
        return [program("caddy"), "run", "--config", str(self.folder / "Caddyfile"), "--adapter", "caddyfile"]


def sample(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def changed(text: str, old: str, new: str) -> str:
    """Return the sample with one text replaced, which must be there once."""
    if text.count(old) != 1:
        raise AssertionError(f"{text.count(old)} times in the sample: {old}")
    return text.replace(old, new)
