vcl 4.1;
backend wiki { .host = "127.0.0.1"; .port = "${wiki.port}"; }
sub vcl_backend_response {
    # As long as the wiki allows, and not the ten seconds more that are Varnish's default.
    set beresp.grace = 0s;
}
sub vcl_deliver {
    if (obj.hits > 0) { set resp.http.Cache-Status = "varnish; hit"; }
    else { set resp.http.Cache-Status = "varnish; fwd=miss"; }
}
