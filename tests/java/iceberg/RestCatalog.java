import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.Map;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Iceberg's reference of a REST catalog over a catalog in SQLite, on files of this machine.
 *
 * Arguments: the folder of catalog and tables; the token that requests must bear. Prints its port, and ends with its
 * standard input.
 */
public final class RestCatalog {
  public static void main(String[] arguments) throws Exception {
    String folder = new File(arguments[0]).getAbsolutePath();
    String token = arguments[1];
    JdbcCatalog catalog = new JdbcCatalog(properties -> new LocalFiles(), null, true);
    catalog.initialize(
        "rest",
        Map.of(
            "uri", "jdbc:sqlite:" + folder + "/rest.db",
            "warehouse", "file://" + folder,
            "jdbc.schema-version", "V1"));
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new Guarded(new RESTCatalogAdapter(catalog), token)), "/*");
    server.setHandler(context);
    server.start();
    System.out.println(connector.getLocalPort());
    while (System.in.read() >= 0) {}
    server.stop();
  }

  /** The catalog's servlet for those who bear the token. */
  static final class Guarded extends RESTCatalogServlet {
    private final String expected;

    Guarded(RESTCatalogAdapter adapter, String token) {
      super(adapter);
      expected = "Bearer " + token;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response)
        throws jakarta.servlet.ServletException, IOException {
      if (expected.equals(request.getHeader("Authorization"))) {
        super.service(request, response);
        return;
      }
      response.setStatus(401);
      response.setContentType("application/json");
      response
          .getWriter()
          .write("{\"error\": {\"message\": \"unknown token\", \"type\": \"NotAuthorizedException\", \"code\": 401}}");
    }
  }

  /** Files without Hadoop, by paths or file: URIs. */
  public static final class LocalFiles implements FileIO {
    private static File at(String path) {
      return path.startsWith("file:") ? new File(URI.create(path).getPath()) : new File(path);
    }

    @Override
    public InputFile newInputFile(String path) {
      return Files.localInput(at(path));
    }

    @Override
    public OutputFile newOutputFile(String path) {
      at(path).getParentFile().mkdirs();
      return Files.localOutput(at(path));
    }

    @Override
    public void deleteFile(String path) {
      at(path).delete();
    }
  }
}
