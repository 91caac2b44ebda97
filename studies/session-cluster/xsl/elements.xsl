<?xml version="1.0" encoding="UTF-8"?>
<!-- The chemical elements as tables: one for each series, and one of all by density. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" encoding="UTF-8" indent="no"/>
  <xsl:strip-space elements="*"/>
  <xsl:key name="by-series" match="element" use="series"/>

  <xsl:template match="/elements">
    <html lang="en">
      <head>
        <title><xsl:value-of select="count(element)"/> chemical elements</title>
      </head>
      <body>
        <h1>The chemical elements</h1>
        <ul>
          <xsl:for-each select="element[generate-id() = generate-id(key('by-series', series)[1])]">
            <xsl:sort select="series"/>
            <li>
              <a href="#{translate(series, ' ', '-')}"><xsl:value-of select="series"/></a>
              <xsl:text>: </xsl:text>
              <xsl:value-of select="count(key('by-series', series))"/>
            </li>
          </xsl:for-each>
        </ul>
        <xsl:for-each select="element[generate-id() = generate-id(key('by-series', series)[1])]">
          <xsl:sort select="series"/>
          <xsl:call-template name="table">
            <xsl:with-param name="title" select="series"/>
            <xsl:with-param name="elements" select="key('by-series', series)"/>
          </xsl:call-template>
        </xsl:for-each>
        <h2>From the least dense to the densest</h2>
        <ol>
          <xsl:apply-templates select="element[density]" mode="density">
            <xsl:sort select="density" data-type="number"/>
            <xsl:sort select="name"/>
          </xsl:apply-templates>
        </ol>
      </body>
    </html>
  </xsl:template>

  <xsl:template name="table">
    <xsl:param name="title"/>
    <xsl:param name="elements"/>
    <h2 id="{translate($title, ' ', '-')}"><xsl:value-of select="$title"/></h2>
    <table>
      <tr><th>No.</th><th>Symbol</th><th>Name</th><th>Mass</th><th>Melts</th><th>Boils</th><th>Known since</th></tr>
      <xsl:apply-templates select="$elements">
        <xsl:sort select="@number" data-type="number"/>
      </xsl:apply-templates>
    </table>
    <p>
      <xsl:value-of select="count($elements)"/>
      <xsl:text> elements, mean mass </xsl:text>
      <xsl:value-of select="round(sum($elements/mass) div count($elements))"/>
      <xsl:text> u; melting points of </xsl:text>
      <xsl:value-of select="count($elements[melts])"/>
      <xsl:text> are known.</xsl:text>
      <br/>
    </p>
  </xsl:template>

  <xsl:template match="element">
    <tr>
      <xsl:if test="@radioactive = 'yes'"><xsl:attribute name="class">radioactive</xsl:attribute></xsl:if>
      <td><xsl:value-of select="@number"/></td>
      <td><xsl:value-of select="@symbol"/></td>
      <td title="{origin}"><xsl:value-of select="name"/></td>
      <td><xsl:value-of select="mass"/></td>
      <td><xsl:call-template name="celsius"><xsl:with-param name="kelvin" select="melts"/></xsl:call-template></td>
      <td><xsl:call-template name="celsius"><xsl:with-param name="kelvin" select="boils"/></xsl:call-template></td>
      <td>
        <xsl:choose>
          <xsl:when test="discovered"><xsl:value-of select="discovered"/></xsl:when>
          <xsl:otherwise>antiquity</xsl:otherwise>
        </xsl:choose>
      </td>
    </tr>
  </xsl:template>

  <xsl:template match="element" mode="density">
    <li>
      <xsl:value-of select="concat(name, ', ', density, ' g/cm³')"/>
      <xsl:if test="density &lt; 1"> &lt; water</xsl:if>
    </li>
  </xsl:template>

  <xsl:template name="celsius">
    <xsl:param name="kelvin"/>
    <xsl:choose>
      <xsl:when test="$kelvin"><xsl:value-of select="round($kelvin - 273.15)"/> °C</xsl:when>
      <xsl:otherwise>–</xsl:otherwise>
    </xsl:choose>
  </xsl:template>
</xsl:stylesheet>
