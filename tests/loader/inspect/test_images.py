"""`homefree inspect --environment --root`: other file systems, in directories and in the tar files
of containers' images. Nothing of this one is looked at, and nothing is written but what is removed.

Usage: test_images.py HOMEFREE LIBRARY SHIM [unittest arguments]
"""

import gzip
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile

from command import HOMEFREE, MODULE, InspectTest, inspect, main

PACKAGE = HOMEFREE.parents[2] / "python/homefree"

JEMALLOC = MODULE + '__attribute__((used, visibility("hidden"))) int je_mallctl(void) { return 0; }'
TLS = '__thread char room[1700] __attribute__((tls_model("initial-exec"))); char *f(void);'
TLS += "char *f(void) { return room; }"
SITE = "usr/lib/python3/site-packages"


def reader():
    """The module, of a package that has another name here."""
    place = PACKAGE / "command/__init__.py"
    spec = importlib.util.spec_from_file_location("of_command", place)
    sys.modules["of_command"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("of_command.inspect_image")


inspect_image = reader()


class RootTest(InspectTest):
    def setUp(self):
        super().setUp()
        self.module_bytes = self.module("it.so", JEMALLOC, script=None).read_bytes()
        self.temporary = self.directory / "temporary"
        self.temporary.mkdir()
        self.set("TMPDIR", self.temporary)

    def objects(self, root, *paths, status=0):
        """The names of the objects, as they are shown."""
        done = inspect("--environment", "--json", "--root", root, *paths)
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(os.listdir(self.temporary), [])
        files = json.loads(done.stdout)["files"]
        return sorted(file["path"] for file in files if file["error"] is None)


class Directories(RootTest):
    def setUp(self):
        super().setUp()
        self.root = self.directory / "root"
        self.site = self.root / SITE
        self.site.mkdir(parents=True)

    def add(self, name, content=None):
        return self.file(f"root/{name}", content or self.module_bytes)

    def test_environments(self):
        """Each is of a Python of its own."""
        one = self.add(f"{SITE}/one.so")
        two = self.root / "opt/venv/lib/python3.12/site-packages/two.so"
        two.parent.mkdir(parents=True)
        os.link(one, two)
        self.add("usr/lib/libelse.so")
        self.assertEqual(self.objects(self.root), [str(two), str(one)])
        text = inspect("--environment", "--root", self.root).stdout
        self.assertNotIn(b"several-allocators", text)
        text = inspect("--environment", "--root", self.root, "/usr", "/opt").stdout
        self.assertIn(b"several-allocators, 2 objects", text)

    def test_links_stay_in_it(self):
        self.add("opt/store/one.so")
        (self.site / "store").symlink_to("/opt/store")
        (self.site / "up").symlink_to("../" * 50 + "opt/store/one.so")
        (self.site / "host").symlink_to(self.directory / "it.so")
        (self.site / "circle").symlink_to("circle")
        self.assertEqual(self.objects(self.root), [f"{self.root}/opt/store/one.so"])
        self.assertEqual(self.objects(self.root, "/" + SITE + "/host", status=3), [])

    def test_libraries_are_looked_for_in_it(self):
        """In its directories, by its links: one whose static TLS does not fit."""
        needed = self.build("libneeded.so", TLS, "-Wl,-soname,libneeded.so")
        for path in "/opt/lib", "$ORIGIN/../lib", "/usr/lib":
            user = self.build("user.so", MODULE, f"-Wl,-rpath,{path}", "-Wl,--no-as-needed", needed)
            self.add(f"{SITE}/user.so", user.read_bytes())
            self.assertNotIn("static-tls-too-large", self.rules())
            place = {"/opt/lib": "opt/lib", "/usr/lib": "usr/lib"}.get(path, f"{SITE}/../lib")
            self.add("real/libneeded.so", needed.read_bytes())
            (self.root / place).mkdir(parents=True, exist_ok=True)
            link = self.root / place / "libneeded.so"
            link.symlink_to("/real/libneeded.so")
            self.assertIn("static-tls-too-large", self.rules())
            link.unlink()

    def rules(self):
        done = inspect("--environment", "--json", "--root", self.root)
        return {
            one["rule"] for file in json.loads(done.stdout)["files"] for one in file["findings"]
        }

    def test_its_glibc(self):
        nodes = "GLIBC_2.17 { local: *; }; GLIBC_9.7 { global: number; };"
        number = "int number(void); int number(void) { return 1; }"
        stub = self.build("libc.so.6", number, "-nostdlib", "-Wl,-soname,libc.so.6", script=nodes)
        user = "int number(void), x(void); int x(void) { return number(); }"
        self.add(f"{SITE}/new.so", self.build("new.so", user, "-nostdlib", stub).read_bytes())
        self.assertEqual(self.rules(), set())  # it has none that is known
        for version, found in ("9.6", {"newer-glibc"}), ("9.7", set()), ("9" * 5000 + ".1", set()):
            said = f"GNU C Library (Test 1-2) stable release version {version}.\n"
            self.add("lib64/libc.so.6", said.encode())
            self.assertEqual(self.rules(), found)

    def test_wrong_usage(self):
        self.assert_usage("--root", "/", "x", word="--root needs --environment")
        self.assertEqual(self.objects("/nowhere", status=3), [])


class ImageTest(RootTest):
    def tar(self, *members):
        """A layer: (name, bytes), (name, None) for a directory, or a TarInfo."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for member in members:
                info, content = (member, b"") if isinstance(member, tarfile.TarInfo) else (None, 0)
                if info is None:
                    info, content = tarfile.TarInfo(member[0]), member[1]
                    info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
                    info.size = len(content or b"")
                archive.addfile(info, io.BytesIO(content or b""))
        return made.getvalue()

    def link(self, name, target, kind=tarfile.SYMTYPE):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info

    def saved(self, *layers):
        """As `docker save` writes it."""
        members = [(f"{number}/layer.tar", layer) for number, layer in enumerate(layers)]
        manifest = [{"Config": "c.json", "Layers": [name for name, _ in members]}]
        whole = self.tar(*members, ("manifest.json", json.dumps(manifest).encode()))
        return self.file("image.tar", whole)

    def inside(self, image, *paths, status=0):
        return [path.partition("!")[2] for path in self.objects(image, *paths, status=status)]

    def refused(self, image, why):
        """By the reader itself, which is faster than a process each."""
        with tempfile.TemporaryDirectory() as directory:
            read = inspect_image.Image(directory)
            read.read(str(image), True)
            self.assertEqual(os.listdir(directory), ["files"])
        ((_, said),) = read.problems
        self.assertIn(why, said)


class Images(ImageTest):
    def test_layers(self):
        """What is replaced, removed, hidden, linked, and below links."""
        it = self.module_bytes
        lower = self.tar(
            (f"{SITE}/kept.so", it),
            (f"{SITE}/removed.so", it),
            (f"{SITE}/hidden/a.so", it),
            (f"{SITE}/gone/b.so", it),
            (f"{SITE}/replaced.so", it),
            self.link("lib", "usr/lib"),
        )
        upper = self.tar(
            (f"{SITE}/.wh.removed.so", b""),
            (f"{SITE}/hidden/new.so", it),
            (f"{SITE}/hidden/.wh..wh..opq", b""),
            (f"{SITE}/.wh.gone", b""),
            (f"{SITE}/replaced.so", b"text"),
            ("lib/python3/site-packages/through.so", it),
            self.link(f"{SITE}/hard.so", f"{SITE}/../site.so", tarfile.SYMTYPE),
        )
        found = self.inside(self.saved(lower, upper))
        self.assertEqual(
            found, [f"/{SITE}/{name}.so" for name in ("hidden/new", "kept", "through")]
        )

    def test_forms(self):
        layer = self.tar((f"{SITE}/one.so", self.module_bytes), (f"{SITE}/x.py", b"pass"))
        hard = self.link(f"{SITE}/two.so", f"{SITE}/one.so", tarfile.LNKTYPE)
        packed = gzip.compress(self.tar(("etc/x", b""), hard))
        digests = ("sha256:1", layer), ("sha256:2", packed)
        manifest = {"layers": [{"digest": name, "mediaType": "tar"} for name, _ in digests]}
        index = {"manifests": [{"digest": "sha256:m"}]}
        oci = self.tar(
            *((f"./blobs/{name.replace(':', '/')}", content) for name, content in digests),
            ("./blobs/sha256/m", json.dumps(manifest).encode()),
            ("./index.json", json.dumps(index).encode()),
        )
        one = f"/{SITE}/one.so"
        for image in self.saved(layer), self.file("oci.tar", oci), self.file("exported.tar", layer):
            self.assertEqual(self.inside(image), [one], image)
        packed = self.file("image.tar.gz", gzip.compress(image.read_bytes()))
        self.assertEqual(self.inside(packed, "/usr/lib"), [one])
        self.assertEqual(self.inside(packed, "/etc", status=3), [])

    def test_names_from_the_root_and_what_is_no_file_of_it(self):
        """Nix's images have such names, and those of services pipes."""
        there = f"/{SITE}/one.so"
        members = [
            self.link(f"{SITE}/{number}.so", "", kind)
            for number, kind in enumerate((tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE))
        ]
        hard = self.link(f"/{SITE}/two.so", there, tarfile.LNKTYPE)
        image = self.saved(self.tar(("/usr", None), (there, self.module_bytes), hard, *members))
        self.assertEqual(self.inside(image), [there])

    def test_names_in_text(self):
        layer = self.tar(
            (f"{SITE}/one.so", self.module_bytes), (f"{SITE}/two.so", self.module_bytes + b"x")
        )
        text = inspect("--environment", "--root", self.saved(layer)).stdout.decode()
        self.assertIn("    one.so\n    two.so\n", text)
        self.assertNotIn(str(self.temporary), text)


class Hostile(ImageTest):
    def test_what_leads_out(self):
        it = self.module_bytes
        for name in "../x.so", "a/../../x.so", "/../x.so":
            self.refused(self.saved(self.tar((name, it))), "leads out of the image")
        for target, why in {
            "../x": "leads out",
            "nowhere": "is not",
            "/etc/passwd": "is not",
        }.items():
            hard = self.link("a.so", target, tarfile.LNKTYPE)
            self.refused(self.saved(self.tar(hard)), why)
        self.assertFalse((self.directory / "x.so").exists())

    def test_links_that_would_lead_out_do_not(self):
        outside = self.directory / "outside"
        outside.mkdir()
        (outside / "mine.so").write_bytes(self.module_bytes)
        layer = self.tar(
            self.link(f"{SITE}/out", str(outside)),
            self.link(f"{SITE}/up", "../" * 99 + str(outside)),
            (f"{SITE}/out/one.so", self.module_bytes),
            self.link(f"{SITE}/mine.so", f"{outside}/mine.so"),
        )
        self.assertEqual(self.inside(self.saved(layer)), [f"{outside}/one.so"])
        self.assertEqual(os.listdir(outside), ["mine.so"])

    def test_circles_and_files_as_directories(self):
        circle = self.link("a", "b"), self.link("b", "a"), ("a/x", b"")
        self.refused(self.saved(self.tar(*circle)), "circle")
        self.refused(self.saved(self.tar(("a", b""), ("a/x", b""))), "goes through a file")
        self.refused(self.saved(self.tar(("a/" * 1000, b""))), "deep")

    def test_what_is_no_file(self):
        os.mkfifo(self.directory / "pipe")
        for name in "pipe", "/dev/zero":
            self.refused(self.directory / name, "it is no file")
        self.refused(self.directory / "it.so", "it is no tar file")
        zstd = b"\x28\xb5\x2f\xfd" + bytes(600)
        for image in self.saved(zstd), self.file("zstd.tar", zstd):
            self.refused(image, "compressed with zstd")

    def test_a_command_that_is_ended(self):
        """Nothing of the image stays."""
        image = self.saved(self.tar((f"{SITE}/one.so", self.module_bytes)))
        ready = self.directory / "ready"
        os.mkfifo(ready)
        wait = f"open('{ready}', 'w').close() or __import__('time').sleep(99)"
        self.prepare(f"from command.inspect_root import Root; Root.environments = lambda _: {wait}")
        words = [HOMEFREE, "inspect", "--environment", "--root", image]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            ready.read_bytes()
            self.assertEqual(len(os.listdir(self.temporary)), 1)
            process.terminate()
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(os.listdir(self.temporary), [])

    def test_bombs(self):
        layer = gzip.compress(self.tar((f"{SITE}/one.so", b"\x7fELF" + bytes(100 << 20))))
        self.refused(self.saved(layer), "of")
        manifest = {"layers": [{"digest": "sha256:1", "mediaType": "x"}] * 2000}
        index = ("index.json", json.dumps({**manifest, "manifests": []}).encode())
        self.refused(self.file("many.tar", self.tar(index)), "the limit is 1000")

    def test_damage(self):
        whole = self.saved(self.tar((f"{SITE}/one.so", self.module_bytes))).read_bytes()
        for content in b"", b"x" * 5000, whole[: len(whole) // 2], gzip.compress(whole)[:-50]:
            self.refused(self.file("damaged.tar", content), "")
        for manifest in b"[" * 100_000, b"{}", b"[3]", b'[{"Layers": ["nowhere"]}]', b"[]", b"\xff":
            self.refused(self.file("x.tar", self.tar(("manifest.json", manifest))), "")
        done = inspect("--environment", "--root", self.directory / "damaged.tar")
        self.assertEqual((done.returncode, os.listdir(self.temporary)), (3, []))
        self.assertIn(b"damaged.tar': ", done.stderr)


if __name__ == "__main__":
    main()
