-- The wake-up data of these agents, one list for each: `admission.wakeup`.
step('wakeup', function(ids)
  local found = {}
  for i, id in ipairs(ids) do found[i] = admission.wakeup(id) end
  return found
end, { list_after = 0, reads = true })
