## Downloads for gamed.gd: the files that a game loads, always of one release, never half of two. Copy it beside it.
##
## [codeblock]
##     const Assets = preload("res://gamed_assets.gd")
##     var assets = Assets.new(client)                    # asks no server
##     assets.progress.connect(_on_progress)
##     var result = await assets.download("stable")   # only new bytes; the next one resumes
##     var pack = assets.path("data/level1.pck")          # of the newest whole release, also offline
##     if pack.error == null:
##         ProjectSettings.load_resource_pack(pack.value)
## [/codeblock]
##
## A download never changes the release that the game has open: it makes another one beside it. In `folder`:
##
## [codeblock]
##     current                   the release to load, one line; replaced last
##     releases/<release>/...    its files, under their own paths
##     releases/<release>.json   its manifest; there once every file is
##     staging/                  parts of files, kept for the next download
##     use/                      a file for each process that has a release open
## [/codeblock]
##
## `download` is a coroutine; all else returns at once. Names and behaviour are those of clients/python/gamed_assets.py,
## but that files come one after the other.
class_name GamedAssets
extends RefCounted

## For a progress bar. stage: looking (for files that are here), fetching, finishing; done, size: bytes of the release
## that are here, and all of them; fetched: bytes that came over the network.
signal progress(stage: String, done: int, size: int, fetched: int)

const Client = preload("gamed.gd")
@warning_ignore("shadowed_global_identifier") const GamedClient = Client  ## @deprecated: The older name of Client.
const GamedError = Client.GamedError
const Result = Client.Result
const Tools = Client.Tools
const Disk = Client.Disk
const Claim = Client.Claim
const Platform = Client.Platform

const MAX_MANIFEST_BYTES = 33554432
const MAX_FILES = 100000
const MAX_PATH_BYTES = 1024
const MAX_NAME_BYTES = 255
const SPARE_BYTES = 16777216  ## left free on the disk, beside what is downloaded
const RESTARTS = 3  ## how often a download begins anew because its release is gone at the server
const BLOCK_BYTES = 524288

var folder: String = ""  ## Where the releases are kept.

var _client: Client
var _open: Variant = null
var _mark: Claim = null
var _asked: bool = false  # the server has asked for a token: its files are for players only
var _done: int = 0
var _size: int = 0
var _fetched: int = 0


# `the_folder` instead of one beside the credential; nothing else may be in it.
func _init(client: Client, the_folder: String = "") -> void:
	_client = client
	folder = the_folder if the_folder != "" else "%s/assets/%s" % [client.folder, client.place()]


# --- A release: validated before any part of it is used ----------------------------------------------------------


## A Dictionary: release, published, note, meta (the owner's own words for the game), files ({path: {"size", "sha256",
## "type"}}, paths relative, with `/`, fit for every file system that players have), size in all, raw.
class Manifest:
	## Result of one; NotGamed for anything that this device should not write.
	static func of(raw: PackedByteArray) -> Result:
		var value: Variant = Tools.parsed(raw.get_string_from_utf8())
		if not value is Dictionary or Tools.integer(value.get("format")) != 1:
			return _wrong("The release has a format that this game does not know; update the game.")
		var listed := Tools.member(Result.ok(value), "files", "object")
		if listed.error or listed.value.size() > MAX_FILES:
			return _wrong("The release's list of files is malformed, or too long.")
		var refused := refuse_paths(listed.value.keys())
		if refused.error:
			return refused
		var made := {"release": release_of(raw), "files": {}, "size": 0, "raw": raw}
		var sizes := {}
		for path: String in listed.value:
			var file: Variant = _file_of(listed.value[path])
			if file == null or sizes.get(file["sha256"], file["size"]) != file["size"]:
				return _wrong("The release's list of files is malformed.")
			sizes[file["sha256"]] = file["size"]
			made["files"][path] = file
			made["size"] += file["size"]
		for name: String in ["published", "note"]:
			made[name] = Tools.text(value, name)
		made["meta"] = value["meta"] if value.get("meta") is Dictionary else {}
		return Result.ok(made)

	## The id of a release: of the exact bytes of its manifest.
	static func release_of(raw: PackedByteArray) -> String:
		return "r" + Tools.sha256(raw).substr(0, 16)

	## Whether this is the id of a release.
	static func is_release(name: String) -> bool:
		return name.length() == 17 and name[0] == "r" and Tools.only(name.substr(1, 16), "0123456789abcdef")

	## Whether this is the name of a channel.
	static func is_channel(name: String) -> bool:
		return Tools.only(name, Tools.LOWER + "-", 32) and not name[0] in Tools.DIGITS + "-"

	static func _wrong(detail: String) -> Result:
		return Result.wrong("not_gamed", detail)

	static func _file_of(value: Variant) -> Variant:
		if not value is Dictionary:
			return null
		var file := Tools.members(Result.ok(value), {"size": "number", "sha256": "text", "type": ["text", ""]})
		var valid: bool = file.error == null and file.value["size"] >= 0 and Tools.is_sha256(file.value["sha256"])
		return file.value if valid else null

	## NotGamed unless each can be a file below a folder, beside all the others, on any system.
	static func refuse_paths(paths: Array) -> Result:
		var files := {}
		var folders := {}
		for path: String in paths:
			if is_flawed(path):
				return _wrong("The release has a file that must not be written here: %s" % path.c_escape())
			var key := path.to_lower()
			if files.has(key):
				return _wrong("The release has two files of one name: %s" % path)
			files[key] = true
			while "/" in key:
				key = key.get_base_dir()
				if folders.has(key):
					break
				folders[key] = true
		for key: String in folders:
			if files.has(key):
				return _wrong("The release has a file and a folder of one name: %s" % key)
		return Result.ok()

	## True if some system of players cannot have a file of this name.
	static func is_flawed(path: String) -> bool:
		if path.to_utf8_buffer().size() > MAX_PATH_BYTES:
			return true
		var plain := Tools.only(path, Tools.ALPHANUMERIC + "/._-")
		for i in range(0 if plain else path.length()):
			var unit := path.unicode_at(i)
			if unit < 32 or (unit >= 127 and unit < 160) or (unit >> 11) == 27 or path[i] in '<>:"|?*\\':
				return true
			if unit in [0x2028, 0x2029, Platform.UNREADABLE]:
				return true
		for name: String in path.split("/"):
			if name == "" or name == "." or name == ".." or name.to_utf8_buffer().size() > MAX_NAME_BYTES or name[-1] in ". ":
				return true
			if Tools.is_device(name.split(".")[0].rstrip(" ").to_lower()):
				return true
		return false


# Checks that a manifest has the hash that its name says.
class ManifestCheck:
	func checked(answer: Client.Answer) -> Result:
		var named: Variant = answer.headers.get("asset-release", answer.headers.get("etag", "")).replace('"', "")
		if not Manifest.is_release(named):
			return Tools.lacks("ETag")
		if Manifest.release_of(answer.body) != named:
			return Result.wrong("download_corrupt", "The list of files arrived damaged.")
		return Result.ok(answer)


# Takes the bytes of a file as they come, after those that are in `path` already.
class Part:
	var path: String = ""
	var file: Dictionary = {}
	var targets: Array = []  # the places of the whole file
	var _owner: GamedAssets
	var _out: FileAccess = null
	var _at: int = 0

	func _init(the_path: String, the_file: Dictionary, owner: GamedAssets) -> void:
		path = the_path
		file = the_file
		_owner = owner

	func arrived() -> int:
		return int(max(0, Disk.size_of(path)))

	func headers() -> Dictionary:
		var at := arrived()
		if at == 0:
			return {}
		return {"Range": "bytes=%d-%d" % [at, file["size"] - 1], "If-Range": '"%s"' % file["sha256"]}

	# GamedError or null.
	func begin(answer: Client.Answer) -> GamedError:
		_at = arrived()
		var said := "bytes %d-%d/%d" % [_at, file["size"] - 1, file["size"]]
		if answer.headers.get("content-encoding", "identity").to_lower() != "identity":
			return GamedError.new("not_gamed", "Something between here and the server changes the files on their way.")
		var part := answer.status == 206
		var length: String = answer.headers.get("content-length", "")
		var wrong: bool = length != "" and length != str(file["size"] - (_at if part else 0))
		if wrong or (part and answer.headers.get("content-range", "") != said):
			return other_bytes()
		if answer.status == 200:  # the whole file after all
			_owner.count(-_at, 0)
			_at = 0
		_out = Disk.open_end(path, _at > 0)
		return null if _out else full()

	# GamedError or null.
	func take(bytes: PackedByteArray) -> GamedError:
		if _at + bytes.size() > file["size"]:
			return other_bytes()
		_out.store_buffer(bytes)
		_at += bytes.size()
		_owner.count(bytes.size(), bytes.size())
		return null

	# GamedError or null; the bytes are in the file then.
	func close() -> GamedError:
		if _out == null:
			return null
		_out.close()
		_out = null
		return full() if arrived() < _at else null

	static func other_bytes() -> GamedError:
		return GamedError.new("download_corrupt", "The server sends other bytes than its release has.")

	static func full(missing: int = 0) -> GamedError:
		var more := "%d MiB more are needed" % (missing / 1048576 + 1) if missing > 0 else "free some space"
		return GamedError.new("disk_full", "This device has no room for the download: %s, then start it again." % more)


# --- What is here: no network -----------------------------------------------------------------------------------------


## {"id", "folder", "manifest"} of the newest whole release when this was first asked for, and the same from then on,
## until `switch_over`; null: nothing was downloaded yet. No process removes it while this one lives.
func current() -> Variant:
	if _open == null:
		_hold()
	return _open


## Result of the path of a file of the current release. Errors: NotFound, and Unreachable while no release has arrived.
func path(name: String) -> Result:
	var release: Variant = current()
	if release == null:
		return Result.wrong("not_arrived", "The game's files have not been downloaded yet.")
	if not release["manifest"]["files"].has(name):
		return Result.wrong("file_not_found", "%s is not in this release." % name)
	return Result.ok("%s/%s" % [release["folder"], name])


## Opens the newest whole release in this process. Call it when the game uses no file of the old one.
func switch_over() -> Variant:
	close()
	return current()


## Lets other processes remove the release that this one had open.
func close() -> void:
	if _mark:
		_mark.drop()
	_mark = null
	_open = null


func _hold() -> void:
	for _attempt in range(3):  # a removal moves the pointer first, and then reads the marks
		var release := _pointer()
		var manifest: Variant = _kept(release) if release != "" else null
		if manifest == null:
			return
		var mark := Claim.mark(folder + "/use", release)
		if _pointer() == release and _kept(release) != null:
			_mark = mark
			_open = {"id": release, "folder": "%s/releases/%s" % [folder, release], "manifest": manifest}
			return
		mark.drop()


# The id of the release to load; "" if there is none.
func _pointer() -> String:
	for name: String in ["/current", "/current.new"]:
		var release := Disk.read_text(folder + name).strip_edges()
		if Manifest.is_release(release):
			return release
	return ""


# The manifest of a release that is here, whole; null for any other.
func _kept(release: String) -> Variant:
	var raw: Variant = Disk.read("%s/releases/%s.json" % [folder, release])
	if raw == null or Manifest.release_of(raw) != release:
		return null
	return Manifest.of(raw).value


# --- The server -------------------------------------------------------------------------------------------------------


## Result of the Manifest of the channel's release (or of one named by its id), whole and current on this device.
## Bytes that are here already are not fetched; with `verify` they are read first. What arrived stays for the next time.
## This object keeps the release that it has open: see `switch_over`. Errors: NotFound, SignInRequired where files are
## for players only, DiskFull, DownloadCorrupt, InUse, Unreachable and its kin.
func download(channel: String = "stable", verify: bool = false) -> Result:
	var _me := self
	await Platform.frame()
	if not (Manifest.is_channel(channel) or Manifest.is_release(channel)):
		return Result.wrong("invalid_channel", "A channel's name has 1-32 of a-z 0-9 - and begins with a letter.")
	for name: String in ["releases", "staging", "use"]:
		if not Disk.private_folder("%s/%s" % [folder, name]):
			return Result.failed(Part.full())
	var claim := Claim.take(folder, "download")
	if claim == null:
		return Result.wrong("in_use", "Another process is downloading into this folder.")
	var result: Result
	for _attempt in range(RESTARTS):
		result = await _download(channel, verify)
		if result.error == null or not result.error.is_a("NotFound"):
			break  # else: removed at the server meanwhile, there is a newer one
	claim.drop()
	return result


## Emits `progress`, with so many bytes more.
func count(done: int, fetched: int, stage: String = "fetching") -> void:
	_done += done
	_fetched += fetched
	progress.emit(stage, _done, _size, _fetched)


func _download(channel: String, verify: bool) -> Result:
	var found := await _manifest(channel)
	if found.error:
		return found
	var manifest: Variant = found.value
	_done = 0
	_fetched = 0
	_size = manifest["size"]
	var missing := await _look(manifest, verify)
	if _client.is_closed():
		return Result.failed(_client._unreachable(Client.NO_ANSWER))
	var error := _room(missing)
	for part: Part in missing:
		error = error if error else await _fetch(part)
	if error:
		return Result.failed(error)
	count(0, 0, "finishing")
	return await _finish(manifest)


# Gets the manifest once, so that all files are of one release, whatever is published meanwhile.
func _manifest(channel: String) -> Result:
	var here: Variant = _kept(_pointer())
	var headers := {"If-None-Match": '"%s"' % here["release"]} if here else {}
	var how := {"headers": headers, "check": ManifestCheck.new(), "limit": MAX_MANIFEST_BYTES}
	var answer := await _ask("/assets/" + channel, how)
	if answer.error:
		return Result.ok(here) if here and answer.error.kind == "NotModified" else answer
	return Manifest.of(answer.value.body)


# Sends a token only if the server asks for one: public files need no sign-in.
func _ask(path: String, how: Dictionary) -> Result:
	if not _asked:
		var answer := await _client._request("GET", path, how)
		if answer.error == null or answer.error.code != "token_missing":
			return answer
		_asked = true
	return await _client._game("GET", path, how)


# The Parts of the missing files. Bytes of other whole releases are copied, not fetched again.
func _look(manifest: Dictionary, verify: bool) -> Array:
	var here := {}
	for name: String in Platform.names(folder + "/releases"):
		var other: Variant = _kept(name.get_basename()) if name.ends_with(".json") else null
		for path: String in other["files"] if other else []:
			here[other["files"][path]["sha256"]] = "%s/releases/%s/%s" % [folder, other["release"], path]
	count(0, 0, "looking")
	await Platform.frame()
	var missing := {}
	for path: String in manifest["files"]:
		if _client.is_closed():
			break
		var file: Variant = manifest["files"][path]
		var target := "%s/releases/%s/%s" % [folder, manifest["release"], path]
		var there: Variant = Disk.size_of(target) == file["size"]
		if there and verify:
			there = await _hash_of(target) == file["sha256"]
		if not there and here.has(file["sha256"]) and here[file["sha256"]] != target:
			there = await _copied(here[file["sha256"]], target, file)
		if there:
			count(file["size"], 0, "looking")
			continue
		if not missing.has(file["sha256"]):
			missing[file["sha256"]] = Part.new(_staged(file), file, self)
			count(missing[file["sha256"]].arrived(), 0, "looking")
		missing[file["sha256"]].targets.append(target)
	return missing.values()


func _staged(file: Dictionary) -> String:
	return "%s/staging/%s" % [folder, file["sha256"]]


# GamedError or null. Called before the first byte is fetched, so that a disk that is too small ends a download at once.
func _room(missing: Array) -> GamedError:
	var needed := SPARE_BYTES
	for part: Part in missing:
		needed += part.file["size"] * part.targets.size() - part.arrived()
	var free := Platform.free_bytes(folder)
	return Part.full(needed - free) if missing.size() > 0 and free > 0 and free < needed else null


# Fetches one file, and puts it into each of its places; GamedError or null.
func _fetch(part: Part) -> GamedError:
	for _attempt in range(2):
		var error := await _arrive(part)
		if error:
			return error
		var digest := await _hash_of(part.path)
		if _client.is_closed():
			return _client._unreachable(Client.NO_ANSWER)
		if digest == part.file["sha256"]:
			return await _put(part)
		count(-part.arrived(), 0)
		Disk.remove(part.path)
	return GamedError.new("download_corrupt", "A file of the release arrived damaged, twice.")


# Fetches all bytes of a file. A try that brought some does not count.
func _arrive(part: Part) -> GamedError:
	var attempt := 0
	var size: Variant = part.file["size"]
	if part.arrived() > size:
		Disk.remove(part.path)
	if size == 0:
		return null if Disk.write_whole(part.path, PackedByteArray()) else Part.full()
	while part.arrived() < size:
		var before := part.arrived()
		var how := {"headers": part.headers(), "sink": part, "limit": size, "tries": 1}
		var answer := await _ask("/assets/objects/" + part.file["sha256"], how)
		var error := part.close()
		if error:
			return error
		if answer.error == null and part.arrived() == size:
			break
		error = answer.error if answer.error else Part.other_bytes()
		attempt = 0 if part.arrived() > before else attempt
		if not await _client._paused_after(error, attempt, {"tries": Client.TRIES}):
			return error
		attempt += 1
	await Disk.flushed([part.path])
	return null


# Copies a file to its places, and moves it to the last one.
func _put(part: Part) -> GamedError:
	var last: String = part.targets.pop_back()
	for target: String in part.targets:
		if not await _copied(part.path, target, part.file):
			return _client._unreachable(Client.NO_ANSWER) if _client.is_closed() else Part.full()
		count(part.file["size"], 0)
	Platform.make_folders(last.get_base_dir())
	return null if Platform.rename(part.path, last) else Part.full()


# Copies a file, if its bytes have the right hash.
func _copied(source: String, target: String, file: Dictionary) -> bool:
	var temporary := _staged(file) + ".copy"
	if Disk.size_of(source) != file["size"]:
		return false
	if await _hash_of(source, temporary) != file["sha256"] or Disk.size_of(temporary) != file["size"]:
		Disk.remove(temporary)
		return false
	await Disk.flushed([temporary])
	Platform.make_folders(target.get_base_dir())
	return Platform.rename(temporary, target)


# The hash of a file, one block in each frame; copies it at the same time, if `into` is not empty.
func _hash_of(path: String, into: String = "") -> String:
	var file := Platform.open(path, FileAccess.READ)
	var copy := Platform.open(into, FileAccess.WRITE) if into != "" else null
	var context := HashingContext.new()
	context.start(HashingContext.HASH_SHA256)
	await Platform.frame()
	if file == null or (into != "" and copy == null):
		return ""
	var left := file.get_length()
	while left > 0 and not _client.is_closed():
		var block := file.get_buffer(int(min(left, BLOCK_BYTES)))
		context.update(block)
		if copy:
			copy.store_buffer(block)
		left -= BLOCK_BYTES
		if left > 0:
			await Platform.frame()
	file.close()
	if copy:
		copy.close()
	return context.finish().hex_encode() if left <= 0 else ""


# Makes a whole release the one to load.
func _finish(manifest: Dictionary) -> Result:
	var release: String = manifest["release"]
	var place := "%s/releases/%s" % [folder, release]
	await Disk.flushed([place])
	var written := _kept(release) != null or await Disk.keep(place + ".json", manifest["raw"])
	if written and _pointer() != release:
		written = await Disk.keep(folder + "/current", (release + "\n").to_ascii_buffer())
	if not written:
		return Result.failed(Part.full())
	_remove_others(release)
	return Result.ok(manifest)


# Deletes releases that no process has open.
func _remove_others(keep: String) -> void:
	var spared := Claim.marked(folder + "/use")
	spared.append(keep)
	var names := Platform.names(folder + "/releases")
	names.reverse()  # a manifest before its files: `<release>.json` sorts after `<release>`
	for name: String in names:
		if not name.split(".")[0] in spared:
			Disk.remove_all(folder + "/releases/" + name)
	for name: String in Platform.names(folder + "/staging"):
		Disk.remove(folder + "/staging/" + name)
