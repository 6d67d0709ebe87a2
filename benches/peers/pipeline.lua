-- Sixteen requests in one write: wrk sends them at once and counts each answer.
init = function(args)
  local one = wrk.format("GET", "/")
  batch = string.rep(one, 16)
end

request = function()
  return batch
end
