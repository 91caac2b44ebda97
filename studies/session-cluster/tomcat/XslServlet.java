import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpSession;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import javax.xml.XMLConstants;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;

/**
 * The XSL application: a request with the names of a document and a stylesheet puts them in the session, one without
 * transforms the document with the stylesheet. Both are files of one folder. Nothing is kept from one transformation to
 * the next.
 */
public final class XslServlet extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        HttpSession session = request.getSession(true);
        String document = request.getParameter("xml");
        String stylesheet = request.getParameter("xsl");
        if (document != null && stylesheet != null) {
            session.setAttribute("xml", document);
            session.setAttribute("xsl", stylesheet);
            response.setStatus(HttpServletResponse.SC_NO_CONTENT);
            return;
        }
        document = (String) session.getAttribute("xml");
        stylesheet = (String) session.getAttribute("xsl");
        if (document == null || stylesheet == null) {
            response.sendError(HttpServletResponse.SC_CONFLICT, "first send a request with xml and xsl");
            return;
        }
        try {
            TransformerFactory factory = TransformerFactory.newInstance();
            factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
            factory.setAttribute(XMLConstants.ACCESS_EXTERNAL_DTD, "");
            factory.setAttribute(XMLConstants.ACCESS_EXTERNAL_STYLESHEET, "");
            ByteArrayOutputStream page = new ByteArrayOutputStream();
            factory.newTransformer(new StreamSource(file(stylesheet)))
                .transform(new StreamSource(file(document)), new StreamResult(page));
            response.setContentType("text/html; charset=UTF-8");
            response.getOutputStream().write(page.toByteArray());
        } catch (TransformerException error) {
            response.sendError(HttpServletResponse.SC_INTERNAL_SERVER_ERROR, error.getMessage());
        }
    }

    /** A file of the folder: a name with a slash is none. */
    private File file(String name) throws IOException {
        File file = new File(getServletContext().getInitParameter("xsl-folder"), new File(name).getName());
        if (!file.getName().equals(name) || !file.isFile()) {
            throw new IOException(name + " is not a file of the folder");
        }
        return file;
    }
}
