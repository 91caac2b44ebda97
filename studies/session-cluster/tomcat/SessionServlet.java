import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpSession;
import java.io.IOException;
import java.util.Collections;
import java.util.Objects;
import java.util.TreeMap;

/**
 * The session application: stores the pair of a request in the session, and responds with all pairs in the order in
 * which they were added. Each pair is an attribute of its own, so that the cluster sends one pair per request and not
 * all of them. Attributes have no order; their names begin with a number.
 */
public final class SessionServlet extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        HttpSession session = request.getSession(true);
        TreeMap<String, String> pairs = new TreeMap<>();
        for (String attribute : Collections.list(session.getAttributeNames())) {
            pairs.put(attribute, (String) session.getAttribute(attribute));
        }
        String name = request.getParameter("name");
        if (name != null) {
            String attribute = attributeOf(name, pairs);
            String value = Objects.requireNonNullElse(request.getParameter("value"), "");
            session.setAttribute(attribute, value);
            pairs.put(attribute, value);
        }
        StringBuilder text = new StringBuilder();
        pairs.forEach((attribute, value) ->
            text.append(attribute, NUMBER_LENGTH, attribute.length()).append('=').append(value).append('\n'));
        response.setContentType("text/plain; charset=UTF-8");
        response.setHeader("Cache-Control", "no-store");
        response.getWriter().print(text);
    }

    @Override
    protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
        doGet(request, response);
    }

    private static final int NUMBER_LENGTH = 9;

    private static String attributeOf(String name, TreeMap<String, String> pairs) {
        for (String attribute : pairs.keySet()) {
            if (attribute.substring(NUMBER_LENGTH).equals(name)) {
                return attribute;
            }
        }
        int last = pairs.isEmpty() ? 0 : Integer.parseInt(pairs.lastKey().substring(0, NUMBER_LENGTH));
        return String.format("%09d%s", last + 1, name);
    }
}
