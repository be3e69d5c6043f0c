-- Bodies in orbit, then strings, tables and closures.
local function advance(bodies, dt)
  for i, a in ipairs(bodies) do
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy = a.x - b.x, a.y - b.y
      local d2 = dx * dx + dy * dy + 0.01
      local mag = dt / (d2 * math.sqrt(d2))
      a.vx, a.vy = a.vx - dx * b.mass * mag, a.vy - dy * b.mass * mag
      b.vx, b.vy = b.vx + dx * a.mass * mag, b.vy + dy * a.mass * mag
    end
  end
  for _, body in ipairs(bodies) do
    body.x, body.y = body.x + dt * body.vx, body.y + dt * body.vy
  end
end

local bodies = {}
for i = 1, 8 do bodies[i] = { x = i, y = i * i % 5, vx = 0, vy = 1 / i, mass = 1 / i } end
for _ = 1, 500 do advance(bodies, 0.01) end
for i, body in ipairs(bodies) do print(string.format("%d %.9f %.9f", i, body.x, body.y)) end

local words, counts = {}, {}
for i = 1, 20000 do words[#words + 1] = "w" .. (i * 7919 % 1000) end
for word in table.concat(words, " "):gmatch("%a%d+") do counts[word] = (counts[word] or 0) + 1 end
local sorted = {}
for word, count in pairs(counts) do sorted[#sorted + 1] = word .. "=" .. count end
table.sort(sorted)
print(#sorted, sorted[1], sorted[#sorted], (sorted[7]:rep(3, "|"):upper():gsub("W", "v")))
print(pcall(error, "caught"))
os.exit(4)
