-- Tell which of many agents have ended, or have answered the one that started them and go on for others.
-- Returns their ids, in the given order
step('ended_among', function(ids)
  local found = {}
  for _, id in ipairs(ids) do
    local state, earlier = fields(id, 'state', 'earlier_ended')
    if TERMINAL[state] or (earlier and earlier ~= '') then found[#found + 1] = id end
  end
  return found
end, { list_after = 0, reads = true })
