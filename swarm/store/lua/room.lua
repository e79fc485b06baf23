-- The used and the available memory in bytes while Redis is near its limit, else nothing.
step('room', function() return room.lack() or {} end, { reads = true })
