"""The console: pages for people at ``/console/``, made on the server with Jinja2 and htmx.

The console does nothing that ``/v1`` does not do. Its routes call the functions of the routes of ``/v1``, in process,
and show their answers. A page is added like this:

1. **Route.** A module of ``routes/`` has ``console = ConsoleRoutes()``. ``routes/__init__.py`` lists every ``console``.
   A page is ``@console.page("/projects/{project}/deliveries", uses=(search_deliveries,))``, a change is
   ``@console.action("/deliveries/{id}/retry", uses=(retry_delivery,))``. Paths begin after ``/console``. Both take
   ``request: Request`` and return a ``Response``; path parameters are in ``request.path_params``.
2. **Service call.** ``uses`` names every function of a ``/v1`` route that the page calls. ``await call(request,
   retry_delivery, id)`` checks the permission of that function, calls it and returns its JSON document. A function that
   is missing in ``uses`` is a RuntimeError, so the lists that the tests compare are complete. A page may use only
   functions that read. Data of the view is read from ``services_of(request).view``. For a part of a page that may be
   missing, ``known, problem = await attempt(call(...))`` gives None and the `ProblemError` in place of an error page.
3. **Permission.** ``permission=`` of ``page`` or ``action``; without it, that of the first function of ``uses``, or
   `ANY_USER`. Templates ask ``may(edit)``, ``may(manage)`` or ``may(administer)`` before they show a button.
4. **Template.** ``return render(request, "deliveries.html", project=record, ...)``. Every template extends
   ``base.html``, ``project_base.html`` (needs ``project``) or ``endpoint_base.html`` (needs ``project`` and
   ``endpoint``). An unknown name is an error (StrictUndefined), and everything is escaped: never use ``|safe``.
   ``macros.html`` has ``time(moment)``, ``badge(word)``, ``copy(id)``, ``field_error(faults, name)``, ``empty``.
   ``path("projects", name)`` makes a URL of the console with escaped parts; ``static("console.css")`` that of a file.
5. **Form with token.** ``<form method="post" action="...">{{ form_token() }}`` adds the hidden field. The route checks
   the origin and the token before the handler. ``form_of(request)`` has the fields: ``text(name)``, ``all(name)``,
   ``flag(name)``. A change ends with ``return see(request, path, notice="deleted")`` (303); ``NOTICES`` in
   ``templating`` has the sentences. ``faults_of(problem)`` gives the messages of a 422 by field for a form shown again.
6. **Navigation.** ``navigation.py`` has the tabs of a project and of an endpoint: add a line there, and set ``tab`` in
   the template (``{% set tab = "deliveries" %}``).
7. **Scripts and styles.** The content security policy permits files of ``static/`` only, and no inline script or
   style; also no ``style=`` attribute, no ``hx-on`` and no ``hx-vals="js:"``. Behaviour is in ``console.js``, chosen by
   ``data-`` attributes. Every page must work without the script, except for copying and live updates.
"""
