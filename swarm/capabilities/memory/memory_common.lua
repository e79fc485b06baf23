-- Memory: stores of pages that outlive the jobs that wrote them. They never expire. SHELF is a memory store's id.
--
-- P:memory                  hash    SHELF -> JSON {scope, type, about}: all memory stores that were ever written
-- P:memory:SHELF            hash    page -> JSON {size, version, head, job, agent, by, at}; `head` is the beginning of the text
-- P:memory:SHELF:texts      hash    page -> its text
-- P:memory:SHELF:sums       hash    version: the last one given to any page; bytes: of all texts; log_bytes: of all versions kept
-- P:memory:SHELF:logged     set     pages that have versions kept, including deleted ones
-- P:memory:SHELF:deleted    zset    those of them that are deleted, by the version of it
-- P:memory:SHELF:log:PAGE   stream  its versions, VERSION-0 each: op, text, job, agent, by, at, `new` if there was no page before,
--                                   `from`: its former name; `taken`: the job that the version reverted. The oldest
--                                   are dropped from a page with many, or on a full memory store. A deleted page's are dropped together
--                                   where there are many deleted pages, or no room.
-- P:memory:SHELF:roots      hash    page -> JSON {text, by: [[lines, job]…]}: the text after the last dropped version, and the job of each
--                                   line; '' if unknown, or a person
-- P:memory:SHELF:imported   hash    page -> sha256 of the file that was imported last
--
-- A page's path is like that of a file: `a/b` is in the folder `a`. A folder exists while it holds a page; its name is no page then.

local MOST_VERSIONS = 100
local LEAST_VERSIONS = 5
local MOST_LOG_BYTES = 16 * 1024 * 1024
local MOST_DELETED = 500
local HEAD_BYTES = 400

function memory.key(memory_store, part) return P .. ':memory:' .. memory_store .. (part and ':' .. part or '') end

function memory.begins(text, start) return text:sub(1, #start) == start end

-- The pages below a folder.
function memory.pages_below(memory_store, folder)
  local found = {}
  for _, page in ipairs(redis.call('HKEYS', memory.key(memory_store))) do
    if memory.begins(page, folder .. '/') then found[#found + 1] = page end
  end
  return found
end

function memory.head_of(memory_store, page)
  local record = redis.call('HGET', memory.key(memory_store), page)
  return record and cjson.decode(record)
end

-- Whether the path is taken, by a page or a folder.
function memory.is_taken(memory_store, page)
  return redis.call('HEXISTS', memory.key(memory_store), page) == 1 or #memory.pages_below(memory_store, page) > 0
end

-- The page that blocks a folder needed for this path, or nil.
function memory.page_in_the_way(memory_store, page)
  local at = page:find('/', 1, true)
  while at do
    local folder = page:sub(1, at - 1)
    if redis.call('HEXISTS', memory.key(memory_store), folder) == 1 then return folder end
    at = page:find('/', at + 1, true)
  end
  return nil
end

-- The beginning of a text, without a character cut in two.
local function beginning_of(text)
  if #text <= HEAD_BYTES then return text end
  return (text:sub(1, HEAD_BYTES):gsub('[\192-\255][\128-\191]*$', ''))
end

-- Subtract versions from the sums before they are dropped.
function memory.uncount(memory_store, entries)
  for _, entry in ipairs(entries) do
    for i = 1, #entry[2], 2 do
      if entry[2][i] == 'text' then subtract(memory.key(memory_store, 'sums'), 'log_bytes', #entry[2][i + 1]) end
    end
  end
end

-- The last line is the same with or without its end.
local function split_lines(text)
  local lines = {}
  for line, ends in text:gmatch('([^\n]*)(\n?)') do
    if line ~= '' or ends ~= '' then lines[#lines + 1] = line end
  end
  return lines
end

-- The author of each line of a text after a version's author changed it from `old`, whose lines are by `by`. The common beginning and end
-- keep their authors; so does any line in between that `old` had, even in another place.
local function attribute(old, by, new, author)
  local first, found = 1, {}
  while first <= #old and first <= #new and old[first] == new[first] do
    found[first] = by[first]
    first = first + 1
  end
  local last_old, last_new = #old, #new
  while last_old >= first and last_new >= first and old[last_old] == new[last_new] do
    found[last_new] = by[last_old]
    last_old, last_new = last_old - 1, last_new - 1
  end
  local known = {}
  for at = last_old, first, -1 do
    known[old[at]] = known[old[at]] or {}
    table.insert(known[old[at]], by[at])
  end
  for at = first, last_new do
    found[at] = known[new[at]] and table.remove(known[new[at]]) or author
  end
  return found
end

-- Keep the lines' authors of a version before it is dropped.
local function keep_authors(memory_store, page, entry)
  local version, authors, runs = {}, {}, {}
  for i = 1, #entry[2], 2 do version[entry[2][i]] = entry[2][i + 1] end
  local stored = redis.call('HGET', memory.key(memory_store, 'roots'), page)
  local root = stored and cjson.decode(stored) or { text = '', by = {} }
  for _, run in ipairs(root.by) do
    for _ = 1, run[1] do authors[#authors + 1] = run[2] end
  end
  local author = (stored or version.new) and version.job or ''
  for _, job in ipairs(attribute(split_lines(root.text), authors, split_lines(version.text), author)) do
    if #runs > 0 and runs[#runs][2] == job then runs[#runs][1] = runs[#runs][1] + 1 else runs[#runs + 1] = { 1, job } end
  end
  redis.call('HSET', memory.key(memory_store, 'roots'), page, cjson.encode({ text = version.text, by = runs }))
end

local function drop_old_versions(memory_store, page)
  local log = memory.key(memory_store, 'log:' .. page)
  local length = redis.call('XLEN', log)
  while length > MOST_VERSIONS
    or (length > LEAST_VERSIONS and count(redis.call('HGET', memory.key(memory_store, 'sums'), 'log_bytes')) > MOST_LOG_BYTES) do
    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)
    keep_authors(memory_store, page, oldest[1])
    redis.call('XDEL', log, oldest[1][1])
    memory.uncount(memory_store, oldest)
    length = length - 1
  end
end

-- Remove a page with all its versions.
function memory.purge(memory_store, page)
  local log, known = memory.key(memory_store, 'log:' .. page), memory.head_of(memory_store, page)
  memory.uncount(memory_store, redis.call('XRANGE', log, '-', '+'))
  if known then subtract(memory.key(memory_store, 'sums'), 'bytes', known.size) end
  redis.call('DEL', log)
  redis.call('HDEL', memory.key(memory_store), page)
  for _, part in ipairs({ 'texts', 'roots' }) do redis.call('HDEL', memory.key(memory_store, part), page) end
  redis.call('SREM', memory.key(memory_store, 'logged'), page)
  redis.call('ZREM', memory.key(memory_store, 'deleted'), page)
end

-- The bytes of all pages, their versions, and the remainders of dropped ones.
local function kept_bytes(memory_store)
  local bytes, log_bytes = read(memory.key(memory_store, 'sums'), 'bytes', 'log_bytes')
  return count(bytes) + count(log_bytes) + (redis.call('MEMORY', 'USAGE', memory.key(memory_store, 'roots'), 'SAMPLES', 0) or 0)
end

-- Drop the versions of deleted pages, the longest deleted first, until the rest has at most so many bytes. Returns the kept bytes if it has
-- more.
function memory.make_room(memory_store, most)
  local kept = kept_bytes(memory_store)
  while kept > most or redis.call('ZCARD', memory.key(memory_store, 'deleted')) > MOST_DELETED do
    local oldest = redis.call('ZRANGE', memory.key(memory_store, 'deleted'), 0, 0)[1]
    if not oldest then return kept end
    memory.purge(memory_store, oldest)
    kept = kept_bytes(memory_store)
  end
end

-- Record a change of a page as its next version, and return the version. `text` is false if the page was removed.
function memory.record(memory_store, page, given, op, text, more)
  local known = memory.head_of(memory_store, page)
  local version = redis.call('HINCRBY', memory.key(memory_store, 'sums'), 'version', 1)
  local entry = { 'op', op, 'text', text or '', 'job', given.job, 'agent', given.agent, 'by', given.by, 'at', string.format('%.3f', NOW) }
  if not known then entry[#entry + 1] = 'new'; entry[#entry + 1] = '1' end
  if given.taken then entry[#entry + 1] = 'taken'; entry[#entry + 1] = given.taken end
  for _, each in ipairs(more or {}) do entry[#entry + 1] = each end
  redis.call('XADD', memory.key(memory_store, 'log:' .. page), version .. '-0', unpack(entry))
  redis.call('SADD', memory.key(memory_store, 'logged'), page)
  add(memory.key(memory_store, 'sums'), 'log_bytes', #(text or ''))
  add(memory.key(memory_store, 'sums'), 'bytes', #(text or '') - (known and known.size or 0))
  if text then
    redis.call('HSET', memory.key(memory_store, 'texts'), page, text)
    redis.call('ZREM', memory.key(memory_store, 'deleted'), page)
    redis.call('HSET', memory.key(memory_store), page, cjson.encode({ size = #text, version = version, head = beginning_of(text),
      job = given.job, agent = given.agent, by = given.by, at = NOW }))
  else
    redis.call('HDEL', memory.key(memory_store, 'texts'), page)
    redis.call('HDEL', memory.key(memory_store), page)
    redis.call('ZADD', memory.key(memory_store, 'deleted'), version, page)
  end
  drop_old_versions(memory_store, page)
  redis.call('HSET', P .. ':memory', memory_store, given.about)
  if given.job ~= '' and redis.call('EXISTS', job_key(given.job)) == 1 then
    emit(given.job, 'memory', given.agent, 'memory_store', memory_store, 'page', page, 'change', op)
  end
  return version
end
