-- What one connection after another asks: `kind`, then the players' file, a path, and what the kind needs: of a plain
-- one the name and the value of a header, of a part the range.
-- The players' file has one line per player: access token, refresh credential, entity-tag of the save "auto"; for
-- `patch` and `record` the third word is the id of a record, which ends the path.

local kind, made, credentials, noise = "plain", {}, {}, ""
local NOISE, BODY, END = 1024 * 1024, 4096, '"}'
local TEXT = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

local function players(name)
    local found = {}
    for line in io.lines(name) do
        local access, refresh, tag = line:match("^(%S+) (%S+) (%S+)$")
        found[#found + 1] = { access = access, refresh = refresh, tag = tag }
    end
    return found
end

local function random_bytes(count)
    local file = io.open("/dev/urandom", "rb")
    local bytes = file:read(count)
    file:close()
    return bytes
end

-- Bytes that JSON can hold as they are.
local function as_text(bytes)
    local letters = {}
    for value = 0, 255 do
        local at = value % #TEXT + 1
        letters[string.char(value)] = TEXT:sub(at, at)
    end
    return (bytes:gsub(".", letters))
end

local function seed()
    local a, b, c = random_bytes(3):byte(1, 3)
    math.randomseed(a * 65536 + b * 256 + c)
end

local function headers_of(player, part)
    local headers = { ["Authorization"] = "Bearer " .. player.access }
    if kind == "known" then
        headers["If-None-Match"] = player.tag
    elseif kind == "part" then
        headers["Range"] = part
    elseif kind == "write" then
        headers["If-Match"] = "*"
    end
    return headers
end

-- wrk counts the body itself, so a write is made with one, which is cut off again.
local function made_of(player, path, part)
    local headers = headers_of(player, part)
    if kind == "write" then
        return wrk.format("PUT", path, headers, string.rep("x", BODY)):sub(1, -BODY - 1)
    elseif kind == "patch" then
        headers["Content-Type"] = "application/json"
        local body = '{"data":"' .. string.rep("x", BODY) .. END
        return wrk.format("PATCH", path .. player.tag, headers, body):sub(1, -BODY - #END - 1)
    elseif kind == "record" then
        return wrk.format("GET", path .. player.tag, headers)
    elseif kind == "ticket" then
        headers["Content-Type"] = "application/json"
        return wrk.format("POST", path, headers, '{"audience":"match.example","nonce":"7Qm2xV9cK4tB1nWz"}')
    end
    return wrk.format("GET", path, headers)
end

local function took(status, headers, body)
    local credential = body:match('"refresh_credential":"([^"]+)"')
    if credential then
        credentials[#credentials + 1] = credential
    end
end

function init(args)
    kind = args[1]
    local path = args[3]
    seed()
    noise = random_bytes(NOISE)
    if kind == "patch" then
        noise = as_text(noise)
    end
    if kind == "plain" then
        made[1] = wrk.format("GET", path, args[4] and { [args[4]] = args[5] } or nil)
    elseif kind == "login" then
        made[1] = wrk.format("POST", path, { ["Content-Type"] = "application/json" }, '{"client":{"name":"bench"}}')
    else
        for number, player in ipairs(players(args[2])) do
            made[number] = made_of(player, path, args[4])
            credentials[number] = player.refresh
        end
    end
    if kind == "refresh" then
        response = took -- a script that has it makes wrk read every answer, so the others do not
    end
end

-- 4 KiB that were never sent before.
local function fresh_bytes()
    local at = math.random(1, NOISE - BODY)
    return noise:sub(at, at + BODY - 33) .. string.format("%016x%016x", math.random(0, 2 ^ 31), math.random(0, 2 ^ 31))
end

local checked = false -- wrk first makes a request that it does not send, to check its form

function request()
    if kind == "refresh" then
        local credential = checked and table.remove(credentials, 1) or credentials[1]
        checked = true
        local body = '{"refresh_credential":"' .. credential .. '"}'
        return wrk.format("POST", "/auth/session/refresh", { ["Content-Type"] = "application/json" }, body)
    end
    local chosen = made[math.random(1, #made)]
    if kind == "write" then
        return chosen .. fresh_bytes()
    elseif kind == "patch" then
        return chosen .. fresh_bytes() .. END
    end
    return chosen
end

function done(summary, latency, requests)
    local wrong = summary.errors
    print(string.format(
        'RESULT {"requests":%d,"seconds":%f,"wrong":%d,"broken":%d,"p50_ms":%f,"p99_ms":%f}',
        summary.requests, summary.duration / 1e6, wrong.status, wrong.connect + wrong.read + wrong.write + wrong.timeout,
        latency:percentile(50) / 1000, latency:percentile(99) / 1000
    ))
end
