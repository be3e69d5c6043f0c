-- Numbers, tables, strings and closures, for as many rounds as the argument says.
local rounds, total = tonumber(arg[1]), 0
for round = 1, rounds do
  local words = {}
  for i = 1, 3000 do words[i] = "w" .. (i * 7919 + round) % 1000 end
  local counts = {}
  for word in table.concat(words, " "):gmatch("%a%d+") do counts[word] = (counts[word] or 0) + 1 end
  local keys = {}
  for word in pairs(counts) do keys[#keys + 1] = word end
  table.sort(keys, function(a, b) return a > b end)
  local x, v = { 1, 0, 0 }, { 0, 1, 0.1 }
  for _ = 1, 4000 do
    local d = x[1] * x[1] + x[2] * x[2] + x[3] * x[3]
    for k = 1, 3 do
      v[k] = v[k] - 0.001 * x[k] / (d * math.sqrt(d))
      x[k] = x[k] + 0.001 * v[k]
    end
  end
  total = total + #keys + x[1]
end
print(string.format("%.6f", total))
