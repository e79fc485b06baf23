-- End an agent by its own segment: the last entry, the record, the parent's wake-up and the sums, all in one step.
-- ARGV: prefix, agent, generation, number of the entry, entry, state, text, reason
local id = ARGV[2]
local number = tonumber(ARGV[4])
local refused = refusal(id, ARGV[3], { [ARGV[6]] = true }, number, 1)
if refused then return { refused } end
append(id, number, ARGV[5])
end_agent(id, ARGV[6], ARGV[7], ARGV[8], false)
for i = #kill, 1, -1 do if kill[i] == id then table.remove(kill, i) end end
return { 'ok', publish, kill }
