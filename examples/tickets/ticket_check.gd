# A match server in Godot 4 asks gamed who is connecting (docs/developers/tickets.md); the engine cannot verify Ed25519.
#
#     const TicketCheck = preload("res://ticket_check.gd")
#     var tickets = TicketCheck.new("https://play.example.org", OS.get_environment("GAMED_MATCH_SECRET"))
#     add_child(tickets)
#
#     func _peer_connected(id):                                  # of ENetMultiplayerPeer, on the server
#         send_nonce.rpc_id(id, tickets.new_nonce(id))           # the game: client.ticket("match.example", nonce)
#
#     func _peer_disconnected(id):
#         tickets.forget(id)
#
#     func take_ticket(ticket):                                  # an RPC that any peer may call
#         var id = multiplayer.get_remote_sender_id()
#         var player = await tickets.check_peer(id, ticket)
#         if player.is_empty() and id in multiplayer.get_peers():
#             multiplayer.multiplayer_peer.disconnect_peer(id)
#
# The secret belongs on a server that you or the owner run, never into a game, not even one that hosts its matches.
extends Node

const MAX_TICKET := 4096
const CHARACTERS := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
const TIMEOUT_SECONDS := 10.0

var _address: String
var _secret: String
var _nonces := {}


# The address is the one that the owner has published, never one that a player sends.
func _init(server: String, secret: String):
	_address = server + "/auth/tickets/introspect"
	_secret = secret


# Returns a nonce for a peer that has connected.
func new_nonce(id: int) -> String:
	_nonces[id] = Crypto.new().generate_random_bytes(24).hex_encode()
	return _nonces[id]


# To be called when a peer disconnects.
func forget(id: int) -> void:
	_nonces.erase(id)


# As check(), with the peer's nonce. It is erased before the request: a peer that calls again meanwhile makes no other one.
func check_peer(id: int, ticket: String) -> Dictionary:
	var nonce: String = _nonces.get(id, "")
	_nonces.erase(id)
	return await check(ticket, nonce)


# Returns the claims of a ticket for this connection (`sub` is the player's id); empty for any other text, and if gamed
# does not answer. gamed has checked typ, iss, aud and exp.
func check(ticket: String, nonce: String) -> Dictionary:
	if nonce == "" or ticket.length() > MAX_TICKET:
		return {}
	for character in ticket:  # a form has six characters for an "ä", and gamed refuses one of more than 8 KiB
		if not character in CHARACTERS:
			return {}
	var http := HTTPRequest.new()
	http.timeout = TIMEOUT_SECONDS
	http.max_redirects = 0
	http.body_size_limit = 65536
	add_child(http)
	var headers := ["Authorization: Bearer " + _secret, "Content-Type: application/x-www-form-urlencoded"]
	var answer := []
	if http.request(_address, headers, HTTPClient.METHOD_POST, "token=" + ticket.uri_encode()) == OK:
		answer = await http.request_completed
	http.queue_free()
	if answer.is_empty() or answer[0] != HTTPRequest.RESULT_SUCCESS or answer[1] != 200:
		return {}
	var claims: Variant = JSON.parse_string(answer[3].get_string_from_utf8())
	if not claims is Dictionary or claims.get("active") != true or claims.get("nonce") != nonce:
		return {}
	return claims
