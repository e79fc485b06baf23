-- Change a memory store once. A repeat, by an agent's `cause` or a person's `token`, changes nothing and returns the first answer.
--   op       'create' | 'write' | 'replace' | 'insert' | 'delete' | 'rename'
--   request  JSON {page, cause | token, job, agent, by, about, max_page, max_memory_store, max_pages, max_kept, if_version?, line?, to?, sha?, taken?}
--            by, about    the author for readers; JSON that describes the memory store
--            if_version   of `write`: the page's expected version, 0: it must not exist
--            max_kept     the most of all pages with their versions
--            line         of `insert`: the line before, 0: insert at the top
--            to           of `rename`
--            taken        the job that this change reverts
--            sha          of `write`: the imported file's hash; nothing is done if the page was changed since the last import
--   text     the new text; `old`: of `replace`, the text that must occur exactly once
-- Returns {'ok', publish, JSON {version, line?, around?: {first, lines}}, kill} | {'exists'} | {'missing'} | {'no file'}
--   | {'in the way', page} | {'absent'} | {'several', lines} | {'range', lines} | {'version', current or 0} | {'within'} | {'changed'}
--   | {'same'} | {'limit', 'page' | 'memory_store' | 'pages' | 'kept', resulting size} | {'refused', 'not live', '{}'}

local function split(text)
  local lines = {}
  for line in (text .. '\n'):gmatch('(.-)\n') do lines[#lines + 1] = line end
  if lines[#lines] == '' then lines[#lines] = nil end
  return lines
end

local function line_at(text, at)
  local _, breaks = text:sub(1, at - 1):gsub('\n', '')
  return breaks + 1
end

-- The number of the first line around a place, and those lines.
local function lines_around(text, line)
  local number, shown = 0, {}
  for each in (text .. '\n'):gmatch('(.-)\n') do
    number = number + 1
    if number > line + 2 then break end
    if number >= line - 2 then shown[#shown + 1] = each end
  end
  return { first = math.max(1, line - 2), lines = shown }
end

local changes = {}

function changes.replace(text, given, new, old)
  local found, at = {}, text:find(old, 1, true)
  if not at then return nil, { 'absent' } end
  if text:find(old, at + #old, true) then
    while at do
      found[#found + 1] = line_at(text, at)
      at = text:find(old, at + 1, true)
    end
    return nil, { 'several', found }
  end
  local line = line_at(text, at)
  local changed = text:sub(1, at - 1) .. new .. text:sub(at + #old)
  return changed, { line = line, around = lines_around(changed, line) }
end

function changes.insert(text, given, new)
  local lines = split(text)
  if given.line < 0 or given.line > #lines then return nil, { 'range', #lines } end
  table.insert(lines, given.line + 1, new)
  local changed = table.concat(lines, '\n')
  return changed:sub(-1) == '\n' and changed or changed .. '\n', {}
end

local function too_much(memory_store, given, known, text)
  if #text > given.max_page then return { 'limit', 'page', #text } end
  local total = count(redis.call('HGET', memory.key(memory_store, 'sums'), 'bytes')) - (known and known.size or 0) + #text
  if total > given.max_memory_store then return { 'limit', 'memory_store', total } end
  if not known and redis.call('HLEN', memory.key(memory_store)) >= given.max_pages then return { 'limit', 'pages', given.max_pages + 1 } end
  -- The text and its version. A person who takes changes back always has room.
  local kept = given.cause and memory.make_room(memory_store, given.max_kept - 2 * #text)
  if kept then return { 'limit', 'kept', kept + 2 * #text } end
end

-- Write an import only if the page was not changed since the last one.
local function is_overtaken(memory_store, given, known)
  local imported = redis.call('HGET', memory.key(memory_store, 'imported'), given.page)
  if imported == given.sha then return { 'same' } end
  if known and known.by ~= given.by then return { 'changed' } end
end

local function put(op, memory_store, given, text, old)
  local known = memory.head_of(memory_store, given.page) or nil
  if op == 'create' and memory.is_taken(memory_store, given.page) then return nil, { 'exists' } end
  if op == 'replace' or op == 'insert' then
    if not known then return nil, { #memory.pages_below(memory_store, given.page) > 0 and 'no file' or 'missing' } end
    local changed, about = changes[op](redis.call('HGET', memory.key(memory_store, 'texts'), given.page), given, text, old)
    if not changed then return nil, about end
    local refused = too_much(memory_store, given, known, changed)
    if refused then return nil, refused end
    about.version = memory.record(memory_store, given.page, given, op, changed)
    return about
  end
  local version = known and known.version or 0
  if given.if_version and given.if_version ~= version then return nil, { 'version', version } end
  local refused = given.sha and is_overtaken(memory_store, given, known)
  if refused then return nil, refused end
  local way = memory.page_in_the_way(memory_store, given.page)
  if way then return nil, { 'in the way', way } end
  if not known and #memory.pages_below(memory_store, given.page) > 0 then return nil, { 'exists' } end
  refused = too_much(memory_store, given, known, text)
  if refused then return nil, refused end
  if given.sha then redis.call('HSET', memory.key(memory_store, 'imported'), given.page, given.sha) end
  return { version = memory.record(memory_store, given.page, given, op, text) }
end

local function rename(memory_store, given)
  local old, new = given.page, given.to
  if memory.is_taken(memory_store, new) then return nil, { 'exists' } end
  if not memory.is_taken(memory_store, old) then return nil, { 'missing' } end
  if memory.begins(new, old .. '/') then return nil, { 'within' } end
  local way = memory.page_in_the_way(memory_store, new)
  if way then return nil, { 'in the way', way } end
  local version
  local pages = memory.head_of(memory_store, old) and { old } or memory.pages_below(memory_store, old)
  for _, page in ipairs(pages) do
    local to = new .. page:sub(#old + 1)
    local text = redis.call('HGET', memory.key(memory_store, 'texts'), page)
    -- Drop the versions with the page; versions of an earlier page of the new name make room.
    memory.uncount(memory_store, redis.call('XRANGE', memory.key(memory_store, 'log:' .. to), '-', '+'))
    redis.call('RENAME', memory.key(memory_store, 'log:' .. page), memory.key(memory_store, 'log:' .. to))
    local root = redis.call('HGET', memory.key(memory_store, 'roots'), page)
    redis.call('HDEL', memory.key(memory_store, 'roots'), page, to)
    if root then redis.call('HSET', memory.key(memory_store, 'roots'), to, root) end
    redis.call('SREM', memory.key(memory_store, 'logged'), page)
    redis.call('HSET', memory.key(memory_store), to, redis.call('HGET', memory.key(memory_store), page))
    redis.call('HDEL', memory.key(memory_store), page)
    redis.call('HDEL', memory.key(memory_store, 'texts'), page)
    version = memory.record(memory_store, to, given, 'rename', text, { 'from', page })
  end
  return { version = version }
end

local function delete(memory_store, given)
  local known = memory.head_of(memory_store, given.page)
  if given.if_version and given.if_version ~= (known and known.version or 0) then return nil, { 'version', known and known.version or 0 } end
  local pages = known and { given.page } or memory.pages_below(memory_store, given.page)
  if #pages == 0 then return nil, { 'missing' } end
  local version
  for _, page in ipairs(pages) do version = memory.record(memory_store, page, given, 'delete', false) end
  return { version = version }
end

step('memory_change', function(memory_store, op, request, text, old)
  local given = cjson.decode(request)
  local early = given.cause and causes.answered(given.job, given.agent, given.cause)
  if early then return early end
  local sent = given.token and P .. ':sent:memory/' .. given.token
  local said = sent and redis.call('GET', sent)
  if said then return { 'ok', publish, said, kill } end
  local value, refused
  if op == 'delete' then
    value, refused = delete(memory_store, given)
  elseif op == 'rename' then
    value, refused = rename(memory_store, given)
  else
    value, refused = put(op, memory_store, given, text, old)
  end
  if refused then return refused end
  if given.cause then return causes.answer(given.job, given.cause, value) end
  redis.call('SET', sent, cjson.encode(value), 'EX', 3600)
  return { 'ok', publish, cjson.encode(value), kill }
end)

-- Remove a page with all its versions, or, without a page, the whole memory store.
step('memory_purge', function(memory_store, page)
  local pages = page ~= '' and { page } or redis.call('SMEMBERS', memory.key(memory_store, 'logged'))
  for _, each in ipairs(pages) do memory.purge(memory_store, each) end
  if page == '' then
    redis.call('HDEL', P .. ':memory', memory_store)
    for _, part in ipairs({ 'sums', 'logged', 'deleted', 'imported', 'texts', 'roots' }) do redis.call('DEL', memory.key(memory_store, part)) end
    redis.call('DEL', memory.key(memory_store))
  end
  return 'ok'
end, { when_full = true })
