-- Requests as browsers send them, for wrk. No two of the 65,536 headers are equal: each has its own cookie, the fields
-- of one of eight browsers and one of `urls` URLs. They are built before the load begins, so that a request costs the
-- generator one table lookup.
--
-- wrk -s varied.lua URL -- PATTERN URLS; %d in PATTERN is the URL's number.

local HEADS = 65536

local BROWSERS = {
  { "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36", "en-US,en;q=0.9" },
  { "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 Edg/130.0.0.0", "de,en;q=0.8" },
  { "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15", "en-GB,en;q=0.9" },
  { "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1", "fr-FR,fr;q=0.9" },
  { "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36", "es-ES,es;q=0.9,en;q=0.8" },
  { "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "en-US,en;q=0.5" },
  { "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 Firefox/132.0", "it,en-US;q=0.7,en;q=0.3" },
  { "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36", "ja,en;q=0.8" },
}

local heads = {}
local last = 0

function init(arguments)
  local pattern, urls = arguments[1], tonumber(arguments[2])
  local host = wrk.headers["Host"]
  math.randomseed(1)
  for number = 1, HEADS do
    local agent, language = unpack(BROWSERS[math.random(#BROWSERS)])
    heads[number] = table.concat({
      "GET " .. string.format(pattern, math.random(urls)) .. " HTTP/1.1",
      "Host: " .. host,
      "User-Agent: " .. agent,
      "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
      "Accept-Language: " .. language,
      "Accept-Encoding: gzip, deflate, br",
      string.format("Cookie: theme=dark; visitor=%05x%08x", number, math.random(2 ^ 31 - 1)),
      "", "",
    }, "\r\n")
  end
end

function request()
  last = last % HEADS + 1
  return heads[last]
end
