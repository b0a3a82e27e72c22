## Offline play for gamed.gd: a game saves to this device, and the client sends the saves when it can. Copy it beside
## it.
##
## [codeblock]
##     const Sync = preload("res://gamed_sync.gd")
##     var saves = Sync.new(client)                        # needs no network, and for the first saves no sign-in
##     saves.changed.connect(_on_save_changed)             # with the status of a slot that has changed
##     saves.run()                                         # sends and loads when it can, until close()
##     await saves.ready()                                 # until the server has answered: at most 5 s
##     var result = saves.read("auto")                     # value null: never saved; error NotKnown: never online
##     result = saves.write("auto", bytes, {"title": "Ch. 3"})   # kept on this device when it returns
##     for conflict in saves.conflicts():                  # both sides have changed: the player chooses
##         conflict.keep_mine()                            # or keep_theirs(), or merged(bytes)
## [/codeblock]
##
## A write is based on the version that the game last read or wrote, never on one that has only arrived: progress that
## the player has not seen is never replaced. No decision uses a clock. docs/developers/offline.md has the rules.
##
## Functions that ask the server (send, run, theirs, base, keep_theirs), ready, flush, other_players and adopt are
## coroutines; all others return at once. None waits for the disk but `close`, and `new` if it adopts saves from before
## the sign-in.
## One process at a time for a player's folder. Names and behaviour are those of clients/python/gamed_sync.py.
class_name GamedSync
extends RefCounted

signal changed(status: Dictionary)  ## while `run` runs: a slot that has changed since the last report to the game
signal problem_changed(problem: Client.GamedError)  ## GamedError or null: for a sign that says "offline"
signal trouble_changed(problem: Client.GamedError)  ## @deprecated: The older name of [signal problem_changed].

const Client = preload("gamed.gd")
@warning_ignore("shadowed_global_identifier") const GamedClient = Client  ## @deprecated: The older name of Client.
const GamedError = Client.GamedError
const Result = Client.Result
const Tools = Client.Tools
const Disk = Client.Disk
const SaveInfo = Client.SaveInfo
const Platform = Client.Platform

const FORMAT = 1
const UNOWNED = "not.signed.in"  ## the folder of saves before the first sign-in on this device; it belongs to no player
const WAIT_SECONDS = 25  ## the server holds a request for changes this long, at most
const AGAIN_SECONDS = 300.0  ## a refused write is tried again after this, unless the server names a time
const PAGE_VERSIONS = 32  ## the server limits the rate of larger requests
const MOST_DAMAGED = 4  ## a player's folder keeps all that each of so many power cuts has torn
const STEPS = 4  ## one round sends a slot this often, at most, if the game keeps changing it

const UNKNOWN = "unknown"
const IN_STEP = "in_step"
const WAITING = "waiting"
const NEWER = "newer"
const CONFLICT = "conflict"
const REFUSED = "refused"

## Errors that end a round: they concern the server, the player or this device's disk, not one slot.
const HALTING = [
	"Unreachable", "Cancelled", "Busy", "RateLimited", "SignInRequired", "PlayerChanged", "PlayerBlocked",
	"NotGamed", "UntrustedAddress", "InUse"
]

var player_id: String = ""  ## The player whose saves these are; empty before the first sign-in.
## The error of the last `send`, or of this device's disk, also while nothing is sent; null if both are well. Right
## after `new`: SignInRequired, InUse or LocalDamaged, see `is_open`; while that is true, the code state_damaged says
## that a power cut has damaged the newest save, and the one before it is used.
var problem: GamedError = null
var flaw: GamedError = null  ## @deprecated: Ask [method is_open]; it works until 1.0.
var trouble: GamedError = null  ## @deprecated: The older name of [member problem]; it works until 1.0.

var _client: Client
var _unusable: GamedError = null  # every call fails with it
var _place: String = ""
var _store: Store = null
var _records: Dictionary = {}  # those of `_store`, which changes them
var _cursor: Variant = null
var _kept_cursor: Variant = null  # the one on this device; an error of the disk holds it back
var _failed: GamedError = null  # what has ended the round that runs
var _round_error: GamedError = null  # that of the last round
var _disk_error: GamedError = null  # that of the last flush
var _whole: Variant = null  # {"cursor", "expired", "listed", "compared"} while the pages of a whole list arrive
var _problems: Dictionary = {}  # slot: {"error", "due"}, by the engine's own clock, in ms
var _copy_problems: Dictionary = {}  # the same for each slot's unsent copy: they delay neither writes nor downloads
var _reported: Dictionary = {}
var _sending: bool = false
var _bell: bool = false
var _closed: bool = false
var _succeeded: bool = false  # a round of this Sync has succeeded
var _round: int = 0  # a number of each `run`: a later one ends an earlier
var _listening: int = 0  # the number of the `run` that has begun the present `_listen`; 0 if none is under way
var _flushing: bool = false  # `_flush_all` is under way
var _waiting: Client = null  # sends the request that waits for changes; `close` ends it
var _of_run: Client = null  # sends the requests of the round of `run`; `stop` ends them, too
var _tried_round: int = 0  # `_round` when the last round began: its error is not the answer to a later `run`


# Opens the saves of the player who is signed in, in `folder` or beside the credential; sends no request. Before the
# first sign-in at this server the saves wait on this device: the first `send` after the sign-in, or the first Sync,
# adopts them for the player. After a sign-out `problem` is SignInRequired.
func _init(client: Client, folder: String = "") -> void:
	_client = client
	_unusable = client.problem if client.problem else _opened(folder)
	problem = _unusable if _unusable else _store.torn
	trouble = problem
	flaw = _unusable


# GamedError or null.
func _opened(folder: String) -> GamedError:
	var credential := _client.credential()
	_place = "%s/%s" % [folder if folder != "" else _client.folder + "/sync", _client.place()]
	if credential == null and _other_folders().size() > 0:
		return _signed_out()
	var error := _use(credential.player_id if credential else "")
	if error == null and player_id != "":
		error = _adopt_left()
	for each: Dictionary in slots():
		if each["state"] in [IN_STEP, WAITING]:
			_reported[each["slot"]] = _look_of(each)
	return error


# Opens the folder of this player; GamedError or null.
func _use(id: String) -> GamedError:
	var safe := id if Tools.only(id, Tools.BASE64URL, 64) else id.sha256_text()
	var store := Store.new("%s/%s" % [_place, safe if id != "" else UNOWNED])
	var error := store.open()
	if error:
		store.close()
		return error
	var about := store.about()
	var name: Variant = _client.credential().player_name if id != "" else null
	if name != null and name != about["name"]:  # it has to outlast the credential, for `other_players`
		store.keep_about({"name": name, "adopted": about["adopted"]})
	player_id = id
	_store = store
	_records = store.records
	_cursor = store.cursor()
	_kept_cursor = _cursor
	return null


static func _signed_out() -> GamedError:
	return GamedError.new("signed_out", "No player is signed in here.")


# Adopts what was saved here before the sign-in, unless another process has it open; GamedError or null.
func _adopt_left() -> GamedError:
	if not UNOWNED in Platform.names(_place):
		return null
	var left := Store.new("%s/%s" % [_place, UNOWNED])
	var error := left.open()
	if error and error.code == "in_use":
		return null
	var done := Result.failed(error) if error else _adopted(left)
	if done.error == null and done.value.size() > 0 and _store.settle() == null:
		left.forget(done.value)
	left.close()
	if done.error:
		_store.close()
	return done.error


# Takes over the saves of `left`: Result of their slots, which `left` forgets once the disk has them here. What is in
# both folders is compared at the next start. Left out is a slot with something pending here, and a damaged file.
func _adopted(left: Store) -> Result:
	var done := []
	for slot: String in left.records:
		var mine := _record(slot)
		var local: Variant = left.records[slot]["local"]
		if local and not Record.same(mine["local"], local):
			var error := _copy(left, local, Record.adopted(mine, local), done)
			if error:
				return Result.failed(error)
		else:
			done.append(slot)
	return Result.ok(done)


# Copies bytes of `left`, keeps the record that names them, and adds its slot to `done`: not for a damaged file, nor
# while something of the slot is pending here. GamedError or null.
func _copy(left: Store, local: Dictionary, record: Dictionary, done: Array) -> GamedError:
	var slot: String = record["slot"]
	var idle := _shut() == null and Record.is_idle(_record(slot))
	var data: Variant = left.load_body(slot, local["sha256"]) if idle else null
	if data == null:
		return _shut()
	var kept := _keep(record) if _store.add(slot, data) != null else _cannot_keep()
	if kept.error == null:
		done.append(slot)
	return kept.error


# Opens the player's saves once a player has signed in, and adopts what was saved before; GamedError or null.
func _own() -> GamedError:
	var credential := _client.credential()
	if credential == null:
		return _signed_out()
	var left := _store
	var error := _use(credential.player_id)
	if error:
		return error
	var done := _adopted(left)
	if done.error == null and done.value.size() > 0:
		var flushed := await _until_firm()
		if flushed.error == null:
			left.forget(done.value)
	left.close()
	return done.error


## Lets another process have the folder. What is pending stays pending.
func close() -> void:
	_closed = true
	stop()
	if _store:
		_store.close()
		_hear_disk()


# --- What is known of a slot: pure, every change makes a new record ---------------------------------------------------


# A record is a Dictionary:
#   slot; local: the game's bytes, null: none, or deleted; base: the version that `local` is based on, which the game
#   last read or the server last acknowledged; dirty: the game has written since; sent: {"local", "base"} of a write (a
#   delete if `local` is null) that may have arrived: nothing else is sent before its answer; remote: the server's
#   version in the last list; deleted: there was a version, and it was deleted; dispute: {"reason", "base", "current",
#   "copy"} of an open conflict; dropped: the bytes that were last replaced on this device; spent: a conflict's copy at
#   the server that is not needed after its bytes are current; unsent_copy: {"local", "base"} of bytes that were
#   replaced in a conflict before the server had them. Its base is never current, so the server refuses the write and
#   keeps the bytes as a conflict copy; unlisted: the cursor that this device had when the server acknowledged `base`,
#   which is in the list of changes after it, or null; offered: bytes of another player that `adopt` has copied and the
#   game has not read: they replace nothing here.
# A local is {"sha256", "size", "content_type", "meta", "modified"}: bytes in a file named by their hash.
class Record:
	const MEMBERS = ["local", "base", "sent", "remote", "dispute", "dropped", "spent", "unsent_copy", "offered"]

	static func fresh(slot: String) -> Dictionary:
		var made := {"slot": slot, "dirty": false, "deleted": false, "unlisted": null}
		for name: String in MEMBERS:
			made[name] = null
		return made

	static func with(record: Dictionary, changes: Dictionary) -> Dictionary:
		var made := record.duplicate()
		for name: String in changes:
			made[name] = changes[name]
		return made

	static func tag(info: Variant) -> Variant:
		return info["etag"] if info else null

	static func local_of(info: Dictionary) -> Dictionary:
		return Tools.part(info, ["sha256", "size", "content_type", "meta", "modified"])

	# The same bytes under the same label; nothing equals nothing.
	static func same(one: Variant, other: Variant) -> bool:
		if one == null or other == null:
			return one == null and other == null
		if one["sha256"] != other["sha256"] or one["content_type"] != other["content_type"]:
			return false
		return Tools.same_json(one["meta"], other["meta"])

	# The server has a version that the game has not seen, and this device has nothing to send.
	static func newer(record: Dictionary) -> bool:
		if not is_idle(record):
			return false
		return tag(record["remote"]) != tag(record["base"]) and (record["remote"] != null or record["deleted"])

	# The game wrote this. The same bytes under the same label are not a change.
	static func wrote(record: Dictionary, local: Variant) -> Dictionary:
		if same(record["local"], local):
			return record
		var made := with(record, {"local": local, "dirty": true, "deleted": local == null})
		if local == null:
			made["dropped"] = record["local"]
		elif made["dispute"] and made["remote"]:
			return heard(made, made["remote"])
		return made

	# The game deleted this. A version that it has not read makes that a conflict.
	static func removed_here(record: Dictionary, including_newer: bool) -> Dictionary:
		if including_newer and record["offered"]:
			return removed_here(with(record, {"offered": null}), including_newer)
		if not newer(record):
			return wrote(record, null)
		if including_newer or record["remote"] == null:
			return wrote(took(record), null)
		var dispute := {"reason": "changed", "base": record["base"], "current": record["remote"], "copy": null}
		return with(wrote(record, null), {"dirty": true, "deleted": true, "dispute": dispute})

	# The game read the newer version, and continues from it.
	static func took(record: Dictionary) -> Dictionary:
		var there: Variant = record["remote"]
		var made := with(record, {"local": local_of(there) if there else null, "base": there})
		if there == null and record["local"]:
			made["dropped"] = record["local"]
		return made

	# The server lists this. The same bytes are never a conflict, whichever device wrote them.
	static func heard(record: Dictionary, there: Variant, deleted: bool = false) -> Dictionary:
		var made := with(record, {"remote": there, "deleted": deleted if there == null else false})
		if there and made["offered"] and made["offered"]["sha256"] == there["sha256"]:
			made["offered"] = null
		var local: Variant = made["local"]
		var sent: Variant = made["sent"]
		if there == null:
			return settled(made, null) if local == null and sent == null else moved(made)
		if sent and sent["local"] and sent["local"]["sha256"] == there["sha256"]:
			return acknowledged(made, there, same(sent["local"], there))
		if local and local["sha256"] == there["sha256"] and sent == null:
			return settled(made, there)
		return moved(made)

	# Both sides have the same bytes; another label of the game is still sent, else the server's is taken.
	static func settled(record: Dictionary, there: Variant) -> Dictionary:
		if there and not record["dirty"]:
			return with(record, {"local": local_of(there), "base": there, "dispute": null})
		var dirty := there != null and not same(record["local"], there)
		return with(record, {"base": there, "dirty": dirty, "dispute": null})

	# An open conflict shows the current version of the server.
	static func moved(record: Dictionary) -> Dictionary:
		var dispute: Variant = record["dispute"]
		var there: Variant = record["remote"]
		if dispute == null or tag(dispute["current"]) == tag(there):
			return record
		if there and tag(there) == tag(record["base"]):
			return with(record, {"dispute": null})
		var reason := "changed" if there else ("deleted" if record["deleted"] else "lost")
		return with(record, {"dispute": with(dispute, {"reason": reason, "current": there})})

	# For a whole list. `known`: the server's history has the base of this record. If not, the server has lost a version
	# that it had acknowledged (a restored backup), and the bytes of this device are sent again.
	static func relisted(record: Dictionary, known: bool, deleted: bool, listed: bool) -> Dictionary:
		var made := record
		if not (known or record["dirty"] or record["local"] == null):
			made = with(record, {"dirty": true})
		return made if listed else heard(made, null, deleted)

	# For a whole list without this slot, which was deleted so long ago that the server has forgotten it.
	static func expired(record: Dictionary) -> Dictionary:
		var base: Variant = record["base"]
		if record["local"] == null or base == null or not (record["dirty"] or record["sent"]):
			return heard(record, null, base != null or record["remote"] != null or record["deleted"])
		var dispute: Variant = record["dispute"]
		if dispute == null:
			dispute = {"reason": "deleted", "base": base, "current": null, "copy": null}
		return heard(with(record, {"sent": null, "dispute": dispute}), null, true)

	# The server has carried out the sent write, as `info`; the game may have written since.
	static func acknowledged(record: Dictionary, info: Variant, exactly: bool = true) -> Dictionary:
		var sent: Variant = record["sent"]
		var local: Variant = record["local"]
		var done := exactly and same(local, sent["local"] if sent else null)
		if done and info and local:  # in the spelling of the server
			local = with(local, {"content_type": info["content_type"], "meta": info["meta"]})
		return with(record, {"local": local, "base": info, "dirty": not done, "sent": null})

	# The same, and the server has `current` now, which is another one if another device has written since.
	static func succeeded(record: Dictionary, info: Variant, current: Variant) -> Dictionary:
		return with(acknowledged(record, info), {"remote": current, "deleted": current == null})

	static func disputed(record: Dictionary, error: GamedError) -> Dictionary:
		var current: Variant = error.current()
		var deleted := error.code == "deleted"
		var reason := "changed" if current else ("deleted" if deleted else "lost")
		var dispute := {"reason": reason, "base": record["base"], "current": current, "copy": error.yours()}
		return heard(with(record, {"sent": null, "dispute": dispute}), current, deleted)

	# Nothing of this device is pending or in dispute.
	static func is_idle(record: Dictionary) -> bool:
		return not (record["dirty"] or record["sent"] or record["dispute"])

	# A save from before the sign-in: without a base, so that it never replaces another version.
	static func adopted(record: Dictionary, local: Dictionary) -> Dictionary:
		var changes := {"local": local, "base": null, "dirty": true, "deleted": false}
		changes["dropped"] = record["local"] if record["local"] else record["dropped"]
		return with(record, changes)

	# `read` gives these bytes, now or after a download.
	static func has(record: Dictionary, digest: String) -> bool:
		for name: String in ["local", "remote", "offered"]:
			if record[name] and record[name]["sha256"] == digest:
				return true
		return false

	# Bytes that `read` takes: an offer waits while this device's own bytes are pending or in a conflict.
	static func unread(record: Dictionary) -> Variant:
		return record["offered"] if is_idle(record) else null

	# The game has read `offered`, which may have arrived at the server: it is sent before any write after it.
	static func took_offered(record: Dictionary) -> Dictionary:
		var local: Variant = record["offered"]
		return with(adopted(record, local), {"offered": null, "sent": {"local": local, "base": null}})

	# The server has `offered` as `info`, which the game has not read.
	static func placed(record: Dictionary, info: Dictionary) -> Dictionary:
		return heard(with(record, {"offered": null}), info)

	# Another device was first; `offered` stays to be read.
	static func not_placed(record: Dictionary, error: GamedError) -> Dictionary:
		var made := with(record, {"offered": null}) if error.code == "superseded" else record
		return heard(made, error.current(), error.code == "deleted")

	# The same after a restart of the machine: the note `sent` is kept without a flush, so a pending change may have been
	# sent, and nothing else is sent before its answer.
	static func unsure(record: Dictionary) -> Dictionary:
		var sends: bool = record["dirty"] and (record["local"] != null or record["base"] != null)
		if record["sent"] or record["dispute"] or not sends:
			return record
		return with(record, {"sent": {"local": record["local"], "base": record["base"]}})

	# The player has chosen, in a dispute: this, or one of the next two.
	static func kept_mine(record: Dictionary) -> Dictionary:
		var over: Dictionary = record["dispute"]
		return with(record, {"base": over["current"], "dirty": true, "dispute": null, "spent": over["copy"]})

	static func kept_theirs(record: Dictionary) -> Dictionary:
		var info: Variant = record["dispute"]["current"]
		var local: Variant = local_of(info) if info else null
		var deleted: bool = record["dispute"]["reason"] == "deleted"
		return with(gave_way(record), {"local": local, "base": info, "dirty": false, "deleted": deleted, "dispute": null})

	static func merged(record: Dictionary, local: Dictionary) -> Dictionary:
		var alike: Variant = record["local"] != null and record["local"]["sha256"] == local["sha256"]
		var made := record if alike else gave_way(record)
		return with(made, {"local": local, "base": record["dispute"]["current"], "dirty": true, "dispute": null})

	# Keeps this device's bytes as `dropped`, and as `unsent_copy` if the server does not have them. The server has only
	# the bytes that it refused; the game may have saved newer ones since.
	static func gave_way(record: Dictionary) -> Dictionary:
		var local: Variant = record["local"]
		if local == null:
			return record
		var made := with(record, {"dropped": local})
		var copy: Variant = record["dispute"]["copy"]
		var known: Variant = copy if copy else record["dispute"]["base"]
		if known == null or (copy and copy["sha256"] == local["sha256"]):
			return made
		return with(made, {"unsent_copy": {"local": local, "base": known}})

	# Hashes of all bytes that may still be asked for.
	static func bodies(record: Dictionary) -> Array:
		var sides := [record["local"], record["base"], record["remote"], record["dropped"], record["offered"]]
		for name: String in ["sent", "unsent_copy"]:
			if record[name]:
				sides.append(record[name]["local"])
		if record["dispute"]:
			sides.append(record["dispute"]["base"])
			sides.append(record["dispute"]["current"])
		var found := []
		for side: Variant in sides:
			if side:
				found.append(side["sha256"])
		return found

	# Parses a record on the disk; null if it is damaged.
	static func of(text: String) -> Variant:
		var value: Variant = Tools.parsed(text)
		if not value is Dictionary or Tools.integer(value.get("format")) != FORMAT:
			return null
		var types := {"slot": "text", "dirty": "flag", "deleted": "flag"}
		types["unlisted"] = ["text", null]  # records of older versions of this client lack it
		var made := Tools.members(Result.ok(value), types)
		var members: Variant = _members_of(value, MEMBERS)
		return with(made.value, members) if made.error == null and members else null

	# Those members of a record, or of one of its members, of which each may be null; null if one is damaged.
	static func _members_of(kept: Dictionary, names: Array) -> Variant:
		var made := {}
		for name: String in names:
			made[name] = _member_of(name, kept[name]) if kept.get(name) is Dictionary else null
			if kept.get(name) != null and made[name] == null:
				return null
		return made

	static func _member_of(name: String, kept: Dictionary) -> Variant:
		match name:
			"local", "dropped", "offered":
				return _local(kept)
			"sent", "unsent_copy":
				return _members_of(kept, ["local", "base"])
			"dispute":
				var sides: Variant = _members_of(kept, ["base", "current", "copy"])
				return with(sides, {"reason": str(kept.get("reason"))}) if sides else null
		return SaveInfo.of(kept).value

	static func _local(kept: Dictionary) -> Variant:
		var types := {"sha256": "text", "content_type": "text", "modified": "text", "meta": "object", "size": "number"}
		var found := Tools.members(Result.ok(kept), types)
		return with(kept, found.value) if found.error == null and Tools.is_sha256(kept["sha256"]) else null


# --- The disk ---------------------------------------------------------------------------------------------------------


# A folder of one player at one server: `cursor`, a claim, and for each slot a folder with records and bodies. Only this
# user can read the files. Bodies are written before the record that names them. `record` is on the disk; each change
# writes one more, `record-<number>`, and a flush makes it the `record` once it is on the disk, too. So a killed game
# loses nothing, after a power cut one of them is whole, and no frame waits for the disk. What a power cut has torn is
# kept in `damaged/<number>/<slot>`.
class Store:
	var folder: String = ""
	var records: Dictionary = {}  # {slot: the newest record}; `keep` changes it
	var error: GamedError = null  # that of the last flush; the same until one succeeds
	var ended: int = 0  # number of flushes that have ended
	var torn: GamedError = null  # what a power cut has damaged
	var _torn: Array = []  # the slots that `torn` names
	var _aside: String = ""  # the folder with their damaged files
	var _claim: Client.Claim = null
	var _live: Dictionary = {}  # {slot: {number of each record that is kept: the hashes that it names}}
	var _newest: Dictionary = {}  # {slot: number}
	var _firm: Dictionary = {}  # {slot: number} of the record on the disk
	var _due: bool = false  # something has to come to the disk
	var _flying: Dictionary = {}  # {slot: number} of the record that `_flush` brings to the disk
	var _flush: Client.Flush = null

	func _init(the_folder: String) -> void:
		folder = the_folder

	# Takes the folder for this process, and reads `records`; GamedError or null.
	func open() -> GamedError:
		if not Disk.private_folder(folder + "/slots"):
			return GamedError.new("local_disk", "This device cannot keep saves in %s." % folder)
		_claim = Client.Claim.take(folder, "sync")
		if _claim == null:
			return GamedError.new("in_use", "This game is running already, with the same saves.")
		var boot := Disk.system_line("/proc/sys/kernel/random/boot_id")
		var restarted := boot != Disk.read_text(folder + "/boot")
		for slot: String in Platform.names(folder + "/slots"):
			var failed := _read_slot(slot, restarted)
			if failed:
				return failed
		if torn:
			push_warning(torn.detail)
		if restarted:
			Disk.write_whole(folder + "/boot", boot.to_utf8_buffer())  # lost in a power cut: again another one
		return null

	# Waits for the disk; without `firmly` it leaves that to the next process that opens the folder.
	func close(firmly: bool = true) -> void:
		if _claim:
			if firmly:
				hurry()
				settle()
			_claim.drop()
		_claim = null

	# Finds the newest record of a slot that is whole; GamedError or null. A restart of the machine may have been a power
	# cut, which tears what is not on the disk; a kill does not.
	func _read_slot(slot: String, restarted: bool) -> GamedError:
		if Platform.has_file(_of(slot) + "/record.new") and not Platform.has_file(_of(slot) + "/record"):
			Platform.rename(_of(slot) + "/record.new", _of(slot) + "/record")  # an older version of this client was killed
		var numbers := []
		for name: String in Platform.names(_of(slot)):
			if name == "record" or (name.begins_with("record-") and not name.ends_with(".new")):
				numbers.append(int(name.substr(7, name.length())))
		numbers.sort()
		numbers.reverse()
		if numbers.size() == 0:  # the first write did not get that far
			forget([slot])
			return null
		var newest: Variant = null
		_live[slot] = {}
		for number: int in numbers:
			var text := Disk.read_text("%s/record%s" % [_of(slot), "-%d" % number if number > 0 else ""])
			var record: Variant = Record.of(text)
			if record == null and newest == null and not restarted:
				break
			if record != null:
				if newest == null or (restarted and _has_bytes(record) and not _has_bytes(newest)):
					newest = record
					_newest[slot] = number
				_live[slot][number] = Record.bodies(record)
		if _live[slot].has(0):
			_firm[slot] = 0
		if newest == null:
			var words := "%s cannot be read; the files beside it are untouched."
			return GamedError.new("state_damaged", words % (_of(slot) + "/record"))
		records[slot] = newest
		_due = _due or not is_firm(slot)
		if numbers[0] != _newest[slot]:
			_set_aside(slot)
		_tidy(slot)
		var sure: Dictionary = Record.unsure(newest) if restarted else newest
		return null if Tools.same_json(sure, newest) else keep(sure, false)

	# Keeps a torn record with its bytes in `damaged/<number>/<slot>`, all that is torn at one start under one number.
	func _set_aside(slot: String) -> void:
		if _aside == "":
			_aside = _next_aside()
		var to := "%s/%s" % [_aside, slot]
		Platform.make_folders(to)
		_tidy(slot, to)
		_torn.append(slot)
		var words := "A power cut has damaged the newest save of %s. The save before it is used; the damaged files are in %s."
		torn = GamedError.new("state_damaged", words % [Platform.join(_torn, ", "), _aside])

	# The next folder in `damaged`; the oldest of more than MOST_DAMAGED are deleted.
	func _next_aside() -> String:
		var numbers := []
		for name: String in Platform.names(folder + "/damaged"):
			numbers.append(int(name))
		numbers.sort()
		var next := "%s/damaged/%d" % [folder, numbers[-1] + 1 if numbers.size() > 0 else 1]
		while numbers.size() >= MOST_DAMAGED:
			Disk.remove_all("%s/damaged/%d" % [folder, numbers.pop_front()])
		return next

	# True if the bytes are here that only this device may have.
	func _has_bytes(record: Dictionary) -> bool:
		var locals := [record["local"]]
		for name: String in ["sent", "unsent_copy"]:
			locals.append(record[name]["local"] if record[name] else null)
		for local: Variant in locals:
			if local and load_body(record["slot"], local["sha256"]) == null:
				return false
		return true

	# GamedError or null; the record is then kept, also if the game is killed. With `firm` a flush follows; a record that
	# only repeats what the server knows comes to the disk with the next one, and may be lost in a power cut.
	func keep(record: Dictionary, firm: bool) -> GamedError:
		var slot: String = record["slot"]
		var number: int = _newest.get(slot, 0) + 1
		var data := Tools.ascii_json(Record.with(record, {"format": FORMAT})).to_ascii_buffer()
		var path := _of(slot) + ("/record-%d" % number if Disk.flushes() else "/record")
		if not _has_folder(slot) or not Disk.write_whole(path, data):
			return GamedError.new("local_disk", "This device cannot keep saves.")
		records[slot] = record
		if not _live.has(slot):
			_live[slot] = {}
		_live[slot][number] = Record.bodies(record)
		_newest[slot] = number
		if not Disk.flushes():
			_firm[slot] = number
		elif firm:
			_due = true
		_tidy(slot)
		return null

	# True while something has to come to the disk; begins the next flush, after the one that has ended.
	func is_flushing() -> bool:
		if _flush and _flush.over:
			_land()
		if _flush or not _due:
			return _flush != null
		_due = false
		var paths := []
		for slot: String in _newest:
			if is_firm(slot):
				continue
			for name: String in Platform.names(_of(slot)):  # bodies sort before records
				paths.append("%s/%s" % [_of(slot), name])
			paths.append(_of(slot))
			_flying[slot] = _newest[slot]
		if paths.size() > 0:
			paths.append(folder + "/slots")
			_flush = Client.Flush.new(paths)
		return _flush != null

	# Takes note of a flush that is over. After an error the system takes the bytes that it has lost for written, so that
	# the next flush would succeed without them: they are written anew now, while its memory still has them.
	func _land() -> void:
		_flush.join()
		var done := _flush.done
		var flown := _flying
		_flying = {}
		_flush = null
		ended += 1
		for slot: String in flown:
			done = done and Platform.rename("%s/record-%d" % [_of(slot), flown[slot]], _of(slot) + "/record")
			if done:
				_firm[slot] = flown[slot]
			_tidy(slot)
		if done:
			error = null
			return
		error = error if error else GamedError.new("local_disk", "This device cannot keep saves on its disk.")
		for slot: String in flown:
			if not records.has(slot) or is_firm(slot):
				continue
			for digest: String in Record.bodies(records[slot]):
				var data: Variant = load_body(slot, digest)
				if data != null and not digest in _live[slot].get(_firm.get(slot), []):
					Disk.write_whole("%s/%s" % [_of(slot), digest], data)
			keep(records[slot], false)

	# The value of `ended` once all that has to come to the disk now has been tried.
	func wanted() -> int:
		return ended + int(_flush != null) + int(_due)

	# Makes the newest of each slot due.
	func hurry() -> void:
		_due = true

	# True if the disk has the newest record.
	func is_firm(slot: String) -> bool:
		return _firm.get(slot) == _newest.get(slot)

	# Waits for the disk, on this thread; GamedError or null.
	func settle() -> GamedError:
		while is_flushing():
			_flush.join()
		return error

	# Deletes what neither the newest record, nor the one on the disk, nor the one on its way there names; or moves it
	# into the folder `to`.
	func _tidy(slot: String, to: String = "") -> void:
		var needed := []
		for number: int in _live[slot].keys():
			if number in [_newest[slot], _firm.get(slot), _flying.get(slot)]:
				needed += ["record" if number == _firm.get(slot) else "record-%d" % number] + _live[slot][number]
			else:
				_live[slot].erase(number)
		for name: String in Platform.names(_of(slot)):
			if not name in needed and not (to != "" and Platform.rename(_of(slot) + "/" + name, "%s/%s" % [to, name])):
				Disk.remove(_of(slot) + "/" + name)

	# The hash, or null when this device cannot keep the bytes.
	func add(slot: String, data: PackedByteArray) -> Variant:
		var digest := Tools.sha256(data)
		var here := load_body(slot, digest) != null
		here = here or (_has_folder(slot) and Disk.write_whole(_of(slot) + "/" + digest, data))
		return digest if here else null

	# Deletes slots, of each its records first.
	func forget(slots: Array) -> void:
		for slot: String in slots:
			var names := Platform.names(_of(slot))
			names.reverse()
			for name: String in names:
				Disk.remove(_of(slot) + "/" + name)
			for each: Dictionary in [records, _live, _newest, _firm, _flying]:
				each.erase(slot)

	# null if the file is missing or damaged.
	func load_body(slot: String, digest: String) -> Variant:
		var data: Variant = Disk.read(_of(slot) + "/" + digest)
		return data if data != null and Tools.sha256(data) == digest else null

	func discard(slot: String, digest: String) -> void:
		Disk.remove(_of(slot) + "/" + digest)

	func has(slot: String, info: Dictionary) -> bool:
		return Disk.size_of(_of(slot) + "/" + info["sha256"]) == info["size"]

	func cursor() -> Variant:
		var text := Disk.read_text(folder + "/cursor")
		return text if text != "" else null

	# The player's name, and a text `<slot>/<sha256>` for each save that they have adopted from another player.
	func about() -> Dictionary:
		var value: Variant = Platform.parsed(Disk.read_text(folder + "/player"))
		var kept: Dictionary = value if value is Dictionary else {}
		var adopted: Array = kept["adopted"] if kept.get("adopted") is Array else []
		return {"name": Client.Credential.name_of(kept), "adopted": Tools.filtered(adopted, "text")}

	func keep_about(about: Dictionary) -> bool:
		return Disk.write_whole(folder + "/player", Tools.ascii_json(about).to_ascii_buffer())

	func keep_cursor(cursor: String) -> bool:
		return Disk.write_whole(folder + "/cursor", cursor.to_utf8_buffer())

	# Makes the folder of a slot; the one above it is private.
	func _has_folder(slot: String) -> bool:
		return Platform.has_folder(_of(slot)) or Platform.make_folder(_of(slot))

	func _of(slot: String) -> String:
		return "%s/slots/%s" % [folder, slot]


# --- What a game sees -------------------------------------------------------------------------------------------------


## Both sides have changed since `base`. The client sends nothing of the slot until the player has chosen; the game may
## continue.
class SyncConflict:
	var slot: String = ""  ## The slot in which both sides have changed.
	## changed; deleted: at the server; lost: the server does not know this save (erased, or restored from an old
	## backup)
	var reason: String = ""
	var base_info: Variant = null  ## The version that both sides have changed; null if the slot was empty.
	var current: Variant = null  ## The server's version; null if deleted or lost.
	var copy: Variant = null  ## this device's refused version, which the server keeps beside the current one
	var _sync: GamedSync
	var _dispute: Dictionary = {}

	func _init(owner: GamedSync, the_slot: String, dispute: Dictionary) -> void:
		_sync = owner
		slot = the_slot
		reason = dispute["reason"]
		base_info = dispute["base"]
		current = dispute["current"]
		copy = dispute["copy"]
		_dispute = dispute

	## This device's present version: Result of {"data", "content_type", "meta", "modified"}; of null: deleted here.
	func mine() -> Result:
		return _sync._side(slot, _sync._record(slot)["local"])

	## The server's version; null: deleted, or lost. A coroutine: it fetches bytes that have not arrived.
	func theirs() -> Result:
		return await _sync._side_fetched(slot, current)

	## The version that both started from; null if there was none, or the server does not have it any more. A coroutine.
	func base() -> Result:
		var side := await _sync._side_fetched(slot, base_info)
		return Result.ok() if side.error else side

	## Replaces the server's version by this device's; theirs stays in the server's history.
	func keep_mine() -> Result:
		var over := _sync._over(self)
		return over if over.error else _sync._answer(Record.kept_mine(over.value))

	## Continues from the server's version: `read` it. This device's side stays at the server as a conflict copy, for
	## which the next round sends the bytes that the game has saved since the conflict began, and here, as `lost`. A
	## coroutine.
	func keep_theirs() -> Result:
		var side := await theirs()
		if side.error:
			return side
		var over := _sync._over(self)
		return over if over.error else _sync._answer(Record.kept_theirs(over.value))

	## Continues from new bytes, in which the game has merged both.
	func merged(data: Variant, meta: Variant = null) -> Result:
		var over := _sync._over(self)
		if over.error:
			return over
		var like: Variant = over.value["local"] if over.value["local"] else current
		var local := _sync._local(slot, data, meta, like["content_type"] if like else Client.BINARY)
		return local if local.error else _sync._answer(Record.merged(over.value, local.value))


## False: the player has signed out, the game runs twice, or this device's disk fails; every call fails with `problem`.
## False, too, after `close`.
func is_open() -> bool:
	return _shut() == null


# The error with which every call fails; null while the saves are open.
func _shut() -> GamedError:
	return GamedError.new("in_use", "This Sync was closed.") if _closed and _unusable == null else _unusable


## Waits for the first round, at most `within` seconds; returns whether the first list has ever come here. A coroutine:
## call it after `run` was started and before the first `read`. false: this device was never online with this player;
## `read` fails with NotKnown. A device that knows its saves does not wait for a server that does not answer.
func ready(within: float = 5.0) -> bool:
	var _me := self
	var end := Time.get_ticks_msec() + within * 1000
	await Platform.frame()
	while Time.get_ticks_msec() < end and not _needs_no_wait():
		await Platform.frame()
	return _cursor != null


# True if `ready` cannot learn more from another round.
func _needs_no_wait() -> bool:
	if _succeeded or _closed or _unusable:
		return true
	if _round_error == null or (_ends(_round_error) and _tried_round != _round):
		return false  # a later `run` tries to overcome that
	return _cursor != null or _ends(_round_error)


# The error of a save of another device that does not fit on this disk, or null.
func _space_problem() -> GamedError:
	for noted: Dictionary in _problems.values():
		if noted["error"].code == "local_disk":
			return noted["error"]
	return null


# True for an error that ends `run`, because waiting does not help.
static func _ends(error: GamedError) -> bool:
	return error.is_a("SignInRequired") or error.kind in ["PlayerBlocked", "Cancelled"]


# --- The game's side: this device only, no network --------------------------------------------------------------------


## The newest bytes of this device: Result of {"etag", "data", "content_type", "meta"}; the game's next write is based
## on them. null if the slot was never written. Errors: NotKnown before the first list (see `ready`), Deleted,
## LocalDamaged, and Unreachable (not_arrived) for a save that is known and has not arrived. In a conflict it is this
## device's side.
func read(slot: String) -> Result:
	return _look(slot, true)


## The same bytes, but the next write is not based on them: for a preview, or a copy elsewhere.
func peek(slot: String) -> Result:
	return _look(slot, false)


## Keeps bytes on this device, on top of the version that the game last read or wrote here: the game may crash as soon
## as this returns. The disk has them soon after, see `flush`. The next round sends them; newer ones replace older ones
## that were not sent yet. `data`: bytes, or a text.
func write(slot: String, data: Variant, meta: Variant = null, content_type: String = Client.BINARY) -> Result:
	var local := _local(slot, data, meta, content_type)
	return local if local.error else _answer(Record.wrote(_record(slot), local.value))


## Waits until the disk has all that was written, so that it outlasts a power cut, too: before "Saved", for example.
## Result; error LocalDamaged. A coroutine. `close` waits as well.
func flush() -> Result:
	var _me := self
	if _shut():
		await Platform.frame()
		return Result.failed(_shut())
	_store.hurry()
	return await _until_firm()


## Deletes the version that the game last read or wrote; the server can restore it for a while. If another device has
## saved a newer one, it is a conflict. With `including_newer` that one is deleted, too: only for a player who has seen
## it. Error: NotKnown before the first list, unless the game has written this slot here.
func delete(slot: String, including_newer: bool = false) -> Result:
	var named := Client.path_of(slot)
	if named.error:
		return named
	var record := _record(slot)
	if _unknown(record):
		return _not_known()
	return _answer(Record.removed_here(record, including_newer))


## Every slot that holds something, or waits for something: a list as of `status`.
func slots() -> Array:
	var found := []
	for slot: String in _known():
		if _shown(status(slot)):
			found.append(status(slot))
	return found


## One slot, for a menu: {"slot", "state", "size", "meta", "modified", "copies", "problem"}.
## state: unknown: the first list has not come; in_step; waiting: something is to be brought up or down; newer: `read`
## gives what came from elsewhere; conflict: the player has to choose; refused: see `problem` (a GamedError), the bytes
## are kept here.
## problem: local_disk, too, in any state, if the disk does not have the save although it is kept for now.
## size (null: nothing, it is deleted), meta and modified are of what `read` would give. copies: versions at the server
## that lost a conflict, of any device: restore or dismiss them.
func status(slot: String) -> Dictionary:
	var record := _record(slot)
	var noted: Variant = _problems.get(slot)
	var visible: Variant = noted if noted else _copy_problems.get(slot)
	var error: GamedError = visible["error"] if visible else null
	if error == null and _disk_error and not _store.is_firm(slot):
		error = _disk_error
	var held: Variant = _seen(record)["local"]
	return {
		"slot": slot,
		"state": _state(record, noted),
		"size": held["size"] if held else null,
		"meta": held["meta"] if held else {},
		"modified": held["modified"] if held else "",
		"copies": record["remote"]["conflicts"] if record["remote"] else [],
		"problem": error,
	}


## The slots in which the player has to choose: a list of SyncConflict.
func conflicts() -> Array:
	var found := []
	for slot: String in _known():
		if _records[slot]["dispute"]:
			found.append(SyncConflict.new(self, slot, _records[slot]["dispute"]))
	return found


## The bytes that were last replaced on this device by the server's version or a delete, so that the player can undo it.
func lost(slot: String) -> Result:
	return _side(slot, _record(slot)["dropped"])


## @deprecated: The older name of [method lost]; it works until 1.0.
func dropped(slot: String) -> Result:
	return lost(slot)


## The other players of this server whose saves are on this device, to ask the player before `adopt`: Result of a list
## of {"player_id", "name", "modified", "saves"}. They are of another person, or of this one, whom a server that was set
## up anew has given another id. name: at the last sign-in here, or null; modified: that of the newest save; saves: a
## list of {"slot", "size", "meta", "modified"}, without what the player has as well or has adopted. A player whose
## saves another process has open is left out. A coroutine.
func other_players() -> Result:
	await Platform.frame()
	if _shut():
		return Result.failed(_shut())
	var found := []
	for id: String in _other_folders():
		var left := Store.new("%s/%s" % [_place, id])
		var left_in := _left_in(left)
		var listed := []
		var newest := ""
		for slot: String in left_in.value if left_in.error == null else {}:
			var each := Tools.part(left_in.value[slot], ["size", "meta", "modified"])
			listed.append(Record.with(each, {"slot": slot}))
			newest = each["modified"] if each["modified"] > newest else newest
		if listed.size() > 0:
			found.append({"player_id": id, "name": left.about()["name"], "modified": newest, "saves": listed})
		left.close(false)
		await Platform.frame()
	return Result.ok(found)


## Copies saves of another player, all that `other_players` lists or `slots`, to this one: Result of a list of the slots
## that were copied. Call it only after the player has said that the saves are theirs. They replace nothing: each is
## `newer` until `read` gives it, and a write of the game meanwhile does not replace it. The next round sends those
## whose slot is empty at the server; elsewhere a conflict follows the `read`. A slot with something pending or a
## conflict is left out: call it again later. The other player's saves stay here. A coroutine.
func adopt(id: String, slots: Variant = null) -> Result:
	await Platform.frame()
	if _shut() or player_id == "":
		return Result.failed(_shut() if _shut() else _signed_out())
	if not id in _other_folders():
		return Result.ok([])
	var left := Store.new("%s/%s" % [_place, id])
	var left_in := _left_in(left, slots)
	var done := []
	var error := left_in.error
	for slot: String in left_in.value if error == null else {}:
		var local: Variant = left_in.value[slot]
		error = _copy(left, local, Record.with(_record(slot), {"offered": local}), done)
		if error:
			break
		await Platform.frame()
	left.close(false)
	_bell = true
	return Result.failed(error) if error else Result.ok(done)


# The folders of players who have signed in here before; their names have no dot.
func _other_folders() -> Array:
	var found := []
	for name: String in Platform.names(_place):
		if not "." in name and (_store == null or name != _store.folder.get_file()):
			found.append(name)
	return found


# Opens the store of another player: Result of {slot: local} of what `read` would return there in `slots`, or null: in
# those that this player has not adopted; without what this player has already.
func _left_in(left: Store, slots: Variant = null) -> Result:
	var error := left.open()
	if error:
		return Result.failed(error)
	var known: Array = _store.about()["adopted"]
	var found := {}
	for slot: String in left.records:
		var record: Variant = left.records[slot]
		if Record.newer(record) and record["remote"] and left.has(slot, record["remote"]):
			record = Record.took(record)
		var local: Variant = Record.unread(left.records[slot])
		if local == null:
			local = record["local"]
		if local == null or Client.path_of(slot).error or Record.has(_record(slot), local["sha256"]):
			continue
		if slot in slots if slots is Array else not "%s/%s" % [slot, local["sha256"]] in known:
			found[slot] = local
	return Result.ok(found)


func _look(slot: String, take: bool) -> Result:
	var named := Client.path_of(slot)
	if named.error or _unusable:
		return Result.failed(_unusable) if _unusable else named
	var record := _record(slot)
	if record["offered"] and _store.load_body(slot, record["offered"]["sha256"]) == null:
		var forgotten := _keep(Record.with(record, {"offered": null}))  # the other player still has it
		if forgotten.error:
			return forgotten
		record = forgotten.value
	var seen := _seen(record)
	var bytes := Result.ok(PackedByteArray())
	if seen["local"]:
		bytes = _bytes(slot, seen["local"])
	elif _unknown(record):
		bytes = _not_known()
	elif Record.newer(record) and record["remote"]:
		bytes = Result.wrong("not_arrived", "This save has not arrived on this device yet.")
	var kept := _keep(seen, false) if take and bytes.error == null else bytes
	if kept.error:
		return kept
	if seen["local"] == null:
		return Result.wrong("deleted", "This save was deleted.") if seen["deleted"] else Result.ok()
	var etag: String = "" if seen["dirty"] or not seen["base"] else seen["base"]["etag"]
	var found := Tools.part(seen["local"], ["content_type", "meta"])
	return Result.ok(Record.with(found, {"etag": etag, "data": bytes.value}))


func _bytes(slot: String, local: Dictionary) -> Result:
	var data: Variant = _store.load_body(slot, local["sha256"])
	if data != null:
		return Result.ok(data)
	var record := _record(slot)
	if not record["dirty"] and record["base"]:
		_store.discard(slot, local["sha256"])  # the next round downloads it again
	return _damaged(slot)


func _damaged(slot: String) -> Result:
	return Result.wrong("local_damaged", "The file of %s on this device is damaged or gone." % slot)


# The server may have a save of this slot that this device does not know.
func _unknown(record: Dictionary) -> bool:
	var known: Variant = record["local"] or record["base"] or record["remote"] or Record.unread(record)
	return _cursor == null and not known


# The record after a `read`.
func _seen(record: Dictionary) -> Dictionary:
	if Record.unread(record):
		return Record.took_offered(record)
	return Record.took(record) if _arrived(record) else record


func _not_known() -> Result:
	return Result.wrong("not_known", "This device has not reached the server yet, so it does not know this save.")


# Something newer is here to be read.
func _arrived(record: Dictionary) -> bool:
	return Record.newer(record) and (record["remote"] == null or _store.has(record["slot"], record["remote"]))


func _state(record: Dictionary, noted: Variant) -> String:
	if record["dispute"]:
		return CONFLICT
	if noted:
		return REFUSED
	if Record.unread(record) or _arrived(record):
		return NEWER
	if _copy_problems.has(record["slot"]):
		return REFUSED
	if record["dirty"] or record["sent"] or Record.newer(record) or record["unsent_copy"]:
		return WAITING
	return UNKNOWN if _unknown(record) else IN_STEP


static func _shown(of: Dictionary) -> bool:
	return of["size"] != null or not of["state"] in [IN_STEP, UNKNOWN]


# Reads a side of a conflict from this device.
func _side(slot: String, of: Variant) -> Result:
	if of == null or _unusable:
		return Result.failed(_unusable) if _unusable else Result.ok()
	var data: Variant = _store.load_body(slot, of["sha256"])
	return _side_of(of, data) if data != null else _damaged(slot)


static func _side_of(of: Dictionary, data: PackedByteArray) -> Result:
	return Result.ok(Record.with(Tools.part(of, ["content_type", "meta", "modified"]), {"data": data}))


# The same, or from the server if the bytes are not here.
func _side_fetched(slot: String, info: Variant) -> Result:
	await Platform.frame()
	var side := _side(slot, info)
	if side.error == null or side.error.code != "local_damaged":
		return side
	var fetched := await _fetched(_client.only(player_id), info)
	if fetched.error:
		return fetched
	_keep_body(slot, fetched.value)
	return _side_of(info, fetched.value)


# Result of a local with its bytes on disk.
func _local(slot: String, data: Variant, meta: Variant, content_type: String) -> Result:
	var named := Client.path_of(slot)
	if named.error or _shut():
		return named if named.error else Result.failed(_shut())
	var plain: Variant = Platform.parsed(Tools.ascii_json({} if meta == null else meta))
	if not plain is Dictionary:
		return Result.wrong("bad_meta", "The meta of a save is a JSON object.")
	var bytes: PackedByteArray = data.to_utf8_buffer() if data is String else data
	var digest: Variant = _store.add(slot, bytes)
	if digest == null:
		return _cannot_keep()
	return Result.ok({
		"sha256": digest,
		"size": bytes.size(),
		"content_type": content_type,
		"meta": plain,
		"modified": Platform.utc(int(_client.now())),
	})


# Result of the record, if its conflict is still the shown one.
func _over(shown: SyncConflict) -> Result:
	var record := _record(shown.slot)
	if record["dispute"] and Tools.same_json(record["dispute"], shown._dispute):
		return Result.ok(record)
	return Result.wrong("conflict_over", "This conflict has changed since it was shown.")


# Keeps a decision of the game or the player, and wakes `run`.
func _answer(record: Dictionary) -> Result:
	var kept := _keep(record)
	_bell = true
	return Result.failed(kept.error) if kept.error else Result.ok()


func _record(slot: String) -> Dictionary:
	return _records[slot] if _records.has(slot) else Record.fresh(slot)


# Result of the record: the game may be killed then, and with `firm` the power may fail soon after. No coroutine may
# pause between reading one and keeping the next.
func _keep(record: Dictionary, firm: bool = true) -> Result:
	if _shut():
		return Result.failed(_shut())
	if not Tools.same_json(record, _record(record["slot"])):
		var offered: Variant = _record(record["slot"])["offered"]
		var error := _store.keep(record, firm)
		if error:
			return Result.failed(error)
		_flush_all()
		if offered and not record["offered"]:
			_note_adopted("%s/%s" % [record["slot"], offered["sha256"]])
	return Result.ok(record)


# Waits for the disk while other frames go on.
func _flush_all() -> void:
	if _flushing:
		return
	var _me := self
	_flushing = true
	await Platform.frame()  # what the game writes in one frame is one flush
	while _store.is_flushing():
		_hear_disk()
		await Platform.frame()
	_flushing = false
	_hear_disk()


# Lets the game hear that the disk has failed, or works again, and wakes `run`, which sends what only this device has.
func _hear_disk() -> void:
	if _disk_error != _store.error:
		_disk_error = _store.error
		_bell = true
		_show_problem()


# `problem` is the disk's error, unless the last round has ended with one that ends `run`.
func _show_problem() -> void:
	var ends := _round_error != null and _ends(_round_error)
	var shown := _disk_error if _disk_error and not ends else _round_error
	if problem != shown:
		problem = shown
		trouble = shown
		problem_changed.emit(shown)
		trouble_changed.emit(shown)


# Waits until what has to come to the disk now is there; Result. What has failed before is tried again.
func _until_firm() -> Result:
	var _me := self
	if _store.error:
		_store.hurry()
	var wanted := _store.wanted()
	_flush_all()
	await Platform.frame()
	while _flushing and _store.ended < wanted:
		await Platform.frame()
	return Result.failed(_store.error) if _store.error else Result.ok()


# Leaves a save out of `other_players` from now on: the game has read it, or the server has it. It is only listed again
# if this fails.
func _note_adopted(save: String) -> void:
	var about := _store.about()
	if not save in about["adopted"]:
		about["adopted"].append(save)
		_store.keep_about(about)


static func _cannot_keep() -> Result:
	return Result.wrong("local_disk", "This device cannot keep saves.")


func _known() -> Array:
	var found := _records.keys()
	found.sort()
	return found


# --- The server's side ------------------------------------------------------------------------------------------------


## Asks for changes, sends pending writes, fetches newer versions. Result of a list of statuses of changed slots. Its
## error concerns the server, the player (Unreachable, SignInRequired, ...) or this device's disk (LocalDamaged; the
## server has got the writes all the same); one of a single slot is in its status. A failure, or the end of the process,
## loses nothing: call it again.
func send() -> Result:
	var error := await _tried()
	return Result.ok(_news()) if not (error or _disk_error) else Result.failed(error if error else _disk_error)


## @deprecated: The older name of [method send]; it works until 1.0.
func pump() -> Result:
	return await send()


## Pumps when the server or the game has changes, until `stop` or `close`, and emits `changed`. Ends with
## SignInRequired, PlayerBlocked or InUse, because waiting does not help; call it again after a sign-in. After other
## errors it tries again, and `problem` has the error meanwhile.
func run() -> Result:
	var _me := self
	_round += 1
	var mine := _round
	if _listening == 0:
		_listening = mine
		_listen(mine)
	var attempt := 0
	await Platform.frame()
	while mine == _round and not _closed:
		_bell = false
		var error := await _tried(true)
		for each: Dictionary in _news():
			changed.emit(each)
		if mine == _round and error and (_ends(error) or error.kind == "InUse"):
			_end_run()
			return Result.failed(error)
		attempt = int(min(attempt + 1, 8)) if error else 0
		var seconds := Client.pause_after(error, attempt) * _client.pauses if error else _until_due()
		var end := Time.get_ticks_msec() + seconds * 1000
		var heed := error == null or error == _space_problem()  # new writes are sent although the disk is full
		while Time.get_ticks_msec() < end and not (heed and _bell) and mine == _round:
			await Platform.frame()
	return Result.ok()


## Ends `run` at once, also during a request; what is pending stays so. Other processes still cannot open the saves.
func stop() -> void:
	_round += 1
	_end_run()


func _end_run() -> void:
	_listening = 0
	for client: Client in [_waiting, _of_run]:
		if client:
			client.close()


# Runs one round at a time; its error, or null.
func _tried(by_run: bool = false) -> GamedError:
	var _me := self  # keeps this object until the coroutine ends
	await Platform.frame()
	while _sending:
		await Platform.frame()
	if _shut():
		return _shut()
	_sending = true
	var began := _round
	_failed = await _own() if player_id == "" else null
	var client := _client.only(player_id, 1)
	_of_run = client if by_run else null
	var done := _failed == null and await _hear(client)
	done = done and await _send_all(client) and await _fetch_all(client)
	_of_run = null
	_sending = false
	if _failed and began != _round and _failed.code == "closed":
		return _failed  # `stop` or `close`, which is not a problem
	_tried_round = began
	_succeeded = _succeeded or done
	_round_error = _failed
	_show_problem()
	return _round_error


# False if this is an error: it ends the round, whose steps return false then.
func _goes_on(error: GamedError) -> bool:
	if error:
		_failed = error
	return error == null


# Keeps a record in a round.
func _kept(record: Dictionary, firm: bool = true) -> bool:
	return _goes_on(_keep(record, firm).error)


# Sends pending writes.
func _send_all(client: Client) -> bool:
	for slot: String in _known():
		for member: String in ["offered", "unsent_copy"]:
			if not await _send_beside(client, slot, member):
				return false
		for _step in range(STEPS):
			var sent: Variant = _next(slot)
			if sent == null:
				break
			if not await _send(client, slot, sent):
				return false
		if _failed or not await _dismiss(client, slot):
			return false
	return true


func _fetch_all(client: Client) -> bool:
	for slot: String in _known():
		var wanted: Variant = _wanted(slot)
		if wanted and not await _fetch(client, slot, wanted):
			return false
	return _goes_on(_space_problem())


func _until_due() -> float:
	var due := Time.get_ticks_msec() + (AGAIN_SECONDS * 1000 if _disk_error else 1000000000.0)
	for noted: Dictionary in _problems.values() + _copy_problems.values():
		due = min(due, noted["due"])
	return max(0, due - Time.get_ticks_msec()) / 1000.0


# Waits for the server's changes, and wakes `run`, whose rounds read them.
func _listen(mine: int) -> void:
	var _me := self
	var attempt := 0
	while mine == _listening and not _closed:
		var began := Time.get_ticks_msec()
		var cursor: Variant = _cursor
		var seconds := 1.0
		if cursor != null:
			_waiting = _client.only(player_id, 1)
			var found := await _waiting.changes(cursor, WAIT_SECONDS)
			attempt = int(min(attempt + 1, 8)) if found.error else 0
			if found.error:
				_bell = _bell or _ends(found.error)  # the next round gets it, too, and ends `run`: both begin again later
				seconds = Client.pause_after(found.error, attempt) * _client.pauses
			elif found.value["cursor"] != cursor:
				_bell = true
			elif Time.get_ticks_msec() - began > 1000:
				seconds = 0.0  # the server has waited, and nothing changed
		var end := Time.get_ticks_msec() + seconds * 1000
		while Time.get_ticks_msec() <= end and mine == _listening and not _closed:
			await Platform.frame()


# The statuses that have changed since the last report to the game.
func _news() -> Array:
	var found := []
	var now := {}
	for slot: String in _known():
		var each := status(slot)
		now[slot] = _look_of(each)
		if now[slot] != _reported.get(slot) and _shown(each):
			found.append(each)
	_reported = now
	return found


# A text that differs if the status has changed for the game; in some states also by the server's version.
func _look_of(of: Dictionary) -> String:
	var there: Variant = _record(of["slot"])["remote"] if of["state"] in [NEWER, CONFLICT] else null
	var noted: Variant = of["problem"].code if of["problem"] else ""
	return "%s %s %s" % [of["state"], there["etag"] if there else "", noted]


# Reads the server's list page by page, before the first write.
func _hear(client: Client) -> bool:
	var unlisted := {}
	for slot: String in _known():
		var cursor: Variant = _record(slot)["unlisted"]
		if cursor != null and cursor == _cursor:
			unlisted[slot] = true
	while await _hear_page(client, unlisted):
		pass
	return _failed == null


# True if there are more changes. The cursor is kept last, so that a page that was cut off is listed again. `unlisted`:
# the slots that this device has written since the cursor. If a list of changes lacks that version, the server may have
# lost it.
func _hear_page(client: Client, unlisted: Dictionary) -> bool:
	var asked: Variant = _whole["cursor"] if _whole else _cursor
	var found := await client.changes(asked)
	if found.error and found.error.kind == "Refused" and found.error.status == 400 and asked != null:
		found = await client.changes()  # the server does not know such a cursor
	if found.error:
		return _goes_on(found.error)
	if found.value["more"] and found.value["cursor"] == asked:
		return _goes_on(GamedError.new("not_gamed", "The server's pages of changes do not end."))
	var listed := {}
	for entry: Dictionary in found.value["saves"]:
		if Client.path_of(entry["slot"]).error == null:  # a later protocol may allow other names
			listed[entry["slot"]] = entry
	if found.value["whole"]:
		_whole = {"expired": found.value["expired"], "listed": {}, "compared": {}}
	if _whole:
		_whole["cursor"] = found.value["cursor"]
		for slot: String in listed:
			_whole["listed"][slot] = listed[slot]
			_whole["compared"].erase(slot)
		if found.value["more"]:
			return true
		if not await _hear_all(client, _whole):
			return false
		listed = _whole["listed"]
		unlisted.clear()
	for slot: String in unlisted.keys():
		if found.value["more"] and not listed.has(slot):
			continue
		if not await _compare(client, slot, listed.get(slot), false):
			return false
		unlisted.erase(slot)
	return await _keep_heard(found.value, listed)


# Keeps what the server has of each slot, then the cursor: on the disk, too, it must not be ahead of them. True if there
# are more changes.
func _keep_heard(page: Dictionary, listed: Dictionary) -> bool:
	for slot: String in listed:
		var there: Variant = null if listed[slot].has("deleted") else listed[slot]
		if not _kept(Record.heard(_record(slot), there, there == null)):
			return false
	var flushed := await _until_firm()
	if page["cursor"] != _kept_cursor and flushed.error == null:
		if _closed or not _store.keep_cursor(page["cursor"]):
			return _goes_on(_shut() if _closed else _cannot_keep().error)
		_kept_cursor = page["cursor"]
	_cursor = page["cursor"]
	_whole = null
	return page["more"]


# The server may have another history now (a restored backup): each base must be in it, or its bytes are sent again.
func _hear_all(client: Client, whole: Dictionary) -> bool:
	_problems.clear()
	_copy_problems.clear()
	for slot: String in _known():
		if whole["compared"].has(slot):
			continue
		var entry: Variant = whole["listed"].get(slot)
		var gone: bool = entry == null and whole["expired"]
		var done := _kept(Record.expired(_record(slot))) if gone else await _compare(client, slot, entry, true)
		if not done:
			return false
		whole["compared"][slot] = true
	return true


# Looks for the base of a slot in the server's history, unless its entry in a list is that version. Without an entry in
# a `whole` list the server has no version now; in one of changes it has the one that this device has written.
func _compare(client: Client, slot: String, entry: Variant, whole: bool) -> bool:
	var base: Variant = _record(slot)["base"]
	if entry != null and (base == null or entry.get("etag") == base["etag"]):
		return true
	var stands: Variant = base if base or not whole else _record(slot)["remote"]
	var history := Result.ok([])
	if stands:
		history = await client.versions(slot, stands["version"], PAGE_VERSIONS)
		if history.error and not history.error.is_a("NotFound"):
			return _goes_on(history.error)
	var has := base == null
	var newest := ""
	for version: Dictionary in history.value if history.error == null else []:  # NotFound: the server never had it
		if newest == "" and version["kind"] != "conflict":
			newest = version["kind"]
		has = has or (version["save"] and version["save"]["etag"] == base["etag"])
	var record := _record(slot)
	var agrees: Variant = entry != null and record["local"] != null and entry.get("sha256") == record["local"]["sha256"]
	var deleted := newest == "delete"
	var listed := entry != null or not whole
	var known: bool = (has and (deleted or listed)) or agrees
	return _kept(Record.relisted(record, known, deleted, listed))


# Sends what `_next` noted, and notes the answer.
func _send(client: Client, slot: String, sent: Dictionary) -> bool:
	var local: Variant = sent["local"]
	var after := await _put(client, slot, sent) if local else await _remove(client, slot, sent)
	return _noted(_problems, slot, after.error) if after.error else _kept(after.value, false)


# What to send now, noted before it is sent: the same again until it is answered. null: nothing, or the round has ended.
func _next(slot: String) -> Variant:
	var record := _record(slot)
	var sent: Variant = record["sent"]
	if sent and _problems.has(slot):
		var error: GamedError = _problems[slot]["error"]
		var final := (error.status >= 400 and error.status < 500) or error.kind == "LocalDamaged"
		if final and not Record.same(sent["local"], record["local"]):
			sent = null  # the server refused it for good; the game has written other bytes since
		elif _rests(_problems, slot):
			return null
	if record["dispute"] or (sent == null and not record["dirty"]):
		return null
	_problems.erase(slot)
	if sent == null and (record["local"] or record["base"]):  # else the game has deleted what was never sent
		sent = {"local": record["local"], "base": record["base"]}
	var pending: bool = record["dirty"] and sent != null
	return sent if _kept(Record.with(record, {"sent": sent, "dirty": pending}), false) else null


# Result of the record after the answer.
func _put(client: Client, slot: String, sent: Dictionary) -> Result:
	var local: Variant = sent["local"]
	var data := _bytes(slot, local)
	if data.error:
		return data
	var meta: Variant = local["meta"] if local["meta"].size() > 0 else null
	var cursor: Variant = _cursor
	var put := await client.put(slot, data.value, sent["base"], meta, local["content_type"])
	var record := _record(slot)
	if put.error == null:
		return Result.ok(Record.with(Record.succeeded(record, put.value, put.value), {"unlisted": cursor}))
	if put.error.kind != "Conflict":
		return put
	if put.error.code == "superseded":
		return Result.ok(Record.succeeded(record, put.error.yours(), put.error.current()))
	return Result.ok(Record.disputed(record, put.error))


func _remove(client: Client, slot: String, sent: Dictionary) -> Result:
	var gone := await client.delete(slot, sent["base"])
	if gone.error == null or gone.error.is_a("NotFound"):
		return Result.ok(Record.succeeded(_record(slot), null, null))  # it is deleted already
	if gone.error.kind != "Conflict":
		return gone
	var history := await client.versions(slot, sent["base"]["version"], PAGE_VERSIONS)
	if history.error:
		return history
	for version: Dictionary in history.value:
		if version["kind"] == "delete" and version["parent"] == sent["base"]["version"]:
			# the delete succeeded, and another device has written since
			return Result.ok(Record.succeeded(_record(slot), null, gone.error.current()))
	return Result.ok(Record.disputed(_record(slot), gone.error))


# False if the error ends the round; else it is noted for the slot.
func _noted(problems: Dictionary, slot: String, error: GamedError) -> bool:
	if _halts(error):
		return _goes_on(error)
	var seconds: float = error.retry_after if error.retry_after else AGAIN_SECONDS
	problems[slot] = {"error": error, "due": Time.get_ticks_msec() + seconds * 1000}
	return true


static func _halts(error: GamedError) -> bool:
	return error.kind in HALTING or error.code == "local_disk"


# True while a noted problem has not to be tried again.
static func _rests(problems: Dictionary, slot: String) -> bool:
	return problems.has(slot) and Time.get_ticks_msec() < problems[slot]["due"]


# Sends what is not a write of the game, and forgets it once the server has answered: the `unsent_copy` of a slot, or
# what is `offered`, if the server has no save there. A write of the game after that one is a conflict.
func _send_beside(client: Client, slot: String, member: String) -> bool:
	var record := _record(slot)
	var kept: Variant = record[member]
	var offered := member == "offered"
	var taken: bool = record["sent"] or (offered and (record["base"] or record["remote"] or record["dispute"]))
	if kept == null or taken or _rests(_copy_problems, slot):
		return true
	var local: Variant = kept if offered else kept["local"]
	var data: Variant = _store.load_body(slot, local["sha256"])
	var put: Variant = null
	if data != null:  # a damaged file cannot be sent; the other player still has an offered one
		var meta: Variant = local["meta"] if local["meta"].size() > 0 else null
		put = await client.put(slot, data, null if offered else kept["base"], meta, local["content_type"])
		if put.error and put.error.kind != "Conflict":  # Conflict: the server has kept it, or does not know this save
			return _noted(_copy_problems, slot, put.error)
	_copy_problems.erase(slot)
	record = _record(slot)
	if not Tools.same_json(record[member], kept):
		return true
	if offered and put:
		return _kept(Record.not_placed(record, put.error) if put.error else Record.placed(record, put.value), false)
	return _kept(Record.with(record, {member: null}), false)


# Deletes a conflict's copy at the server after its bytes became current: the player has nothing to choose any more.
func _dismiss(client: Client, slot: String) -> bool:
	var record := _record(slot)
	var spent: Variant = record["spent"]
	if spent == null or not Record.is_idle(record):
		return true
	if record["base"] and record["base"]["sha256"] == spent["sha256"]:
		var done := await client.dismiss(slot, spent["version"])
		if done.error and _halts(done.error):
			return _goes_on(done.error)  # else: the server deletes it in time
	return _kept(Record.with(_record(slot), {"spent": null}), false)


# The version to fetch, so that the game can read it offline; null if its bytes are here.
func _wanted(slot: String) -> Variant:
	var record := _record(slot)
	var wanted: Variant = record["base"] if not record["dirty"] else null
	if record["dispute"] or Record.newer(record):
		wanted = record["dispute"]["current"] if record["dispute"] else record["remote"]
	return null if wanted == null or _store.has(slot, wanted) or _rests(_problems, slot) else wanted


func _fetch(client: Client, slot: String, wanted: Dictionary) -> bool:
	var fetched := await _fetched(client, wanted)
	if fetched.error:  # NotFound: replaced meanwhile, the next list says by what
		return fetched.error.is_a("NotFound") or _noted(_problems, slot, fetched.error)
	if _closed:
		return _goes_on(_shut())
	if _keep_body(slot, fetched.value):
		_problems.erase(slot)
	else:  # noted, because each round would download it again
		var error := GamedError.new("local_disk", "This device has no space for a save of another device.")
		_problems[slot] = {"error": error, "due": Time.get_ticks_msec() + AGAIN_SECONDS * 1000}
	return true


# Keeps the bytes while a record names them; false if this device cannot.
func _keep_body(slot: String, data: PackedByteArray) -> bool:
	var named := Tools.sha256(data) in Record.bodies(_record(slot))
	return _closed or not named or _store.add(slot, data) != null


func _fetched(client: Client, info: Dictionary) -> Result:
	var save := await client.version(info["slot"], info["version"])
	if save.error:
		return save
	if Tools.sha256(save.value["data"]) != info["sha256"]:
		return Result.wrong("version_gone", "The server has another save under this version.")
	return Result.ok(save.value["data"])
