vcl 4.1;
backend origin { .host = "127.0.0.1"; .port = "${origin.port}"; }
# By default Varnish passes on every request with a cookie. Its manual advises to remove cookies for pages that do not
# depend on them.
sub vcl_recv { unset req.http.Cookie; }
